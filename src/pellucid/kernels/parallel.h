// Threads of our own: C++'s, so that kernels need no other library, on any system and beside any other threads.
//
// Who waits spins for a moment and then yields its processor, so that a busy neighbour costs what it uses and no more.
// What is computed never depends on the number of threads.

#pragma once
#include "numbers.h"
#include <atomic>

// One of the threads that run a function together.
class Member {
  public:
    const i64 number, count;
    Member(i64 number, i64 count, std::atomic<i64> &arrived) : number(number), count(count), arrived(arrived) {}

    // f(i) for this thread's share of 0 … n - 1.
    template <class F> void share(i64 n, F f) const {
        for (i64 i = n * number / count, end = n * (number + 1) / count; i < end; i++) f(i);
    }

    // Until all have come here.
    void meet() {
        if (count > 1) meet_others();
    }

  private:
    std::atomic<i64> &arrived;  // how often somebody has, all in all
    i64 meetings = 0;
    void meet_others();
};

// Runs task(member, argument) on so many threads at once, the calling one among them, or on it alone while others have
// the threads.
void run_together(i64 threads, void (*task)(Member &, void *), void *argument);

// How many threads the functions take that the calling thread calls.
i64 threads_here();

template <class F> void together(i64 threads, F f) {
    run_together(threads, [](Member &member, void *argument) { (*(F *)argument)(member); }, &f);
}

// How many threads are worth waking for n pieces of work of about so many operations each.
inline i64 worth_waking(i64 n, i64 work) {
    i64 threads = threads_here(), worth = n * work >> 15;
    if (threads > n) threads = n;
    return threads < worth ? threads : worth;
}

// f(i) for 0 … n - 1, each of which takes about `work` operations.
template <class F> void parallel(i64 n, i64 work, F f) {
    together(worth_waking(n, work), [&](Member &member) { member.share(n, f); });
}
