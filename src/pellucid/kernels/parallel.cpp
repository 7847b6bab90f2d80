// parallel.h: a pool of threads that sleep between calls, and a meeting point.

#include "parallel.h"
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>
#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif
#if defined(__linux__)
#include <sched.h>
#endif

namespace {

const int SPINS = 2000;  // some microseconds

void pause() {
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

// Until the condition holds, without sleeping.
template <class F> void await(F holds) {
    for (int i = 0; i < SPINS; i++) {
        if (holds()) return;
        pause();
    }
    while (!holds()) std::this_thread::yield();
}

class Pool {
  public:
    std::mutex taken;  // by the call that has the threads

    void run(i64 count, void (*task)(Member &, void *), void *argument) {
        this->task = task, this->argument = argument, this->count = count;
        arrived = 0, working = count - 1;
        while ((i64)workers.size() < count - 1) add();
        for (i64 i = 0; i < count - 1; i++) workers[i]->start();
        Member first(0, count, arrived);
        task(first, argument);
        await([this] { return working.load(std::memory_order_acquire) == 0; });
    }

  private:
    struct Worker {
        std::atomic<i64> wanted{0};  // runs, all in all
        std::atomic<bool> asleep{false};
        std::mutex bed;
        std::condition_variable alarm;

        void start() {
            wanted++;
            if (!asleep) return;
            std::lock_guard<std::mutex> lock(bed);
            alarm.notify_one();
        }

        void wait(i64 done) {
            for (int i = 0; i < SPINS; i++) {
                if (wanted > done) return;
                pause();
            }
            std::unique_lock<std::mutex> lock(bed);
            asleep = true;
            while (wanted <= done) alarm.wait(lock);
            asleep = false;
        }
    };

    std::vector<Worker *> workers;  // they live as long as the process
    std::atomic<i64> arrived{0}, working{0};
    void (*task)(Member &, void *) = nullptr;
    void *argument = nullptr;
    i64 count = 0;

    void add() {
        Worker *worker = new Worker;
        workers.push_back(worker);
        i64 number = (i64)workers.size();
        std::thread([this, worker, number] {
            for (i64 done = 0;; done++) {
                worker->wait(done);
                Member member(number, count, arrived);
                task(member, argument);
                working.fetch_sub(1, std::memory_order_release);
            }
        }).detach();
    }
};

Pool *pool = new Pool;
thread_local i64 told = 0;

// Those that this process may use, or $OMP_NUM_THREADS. More threads than that would wait for each other by turns.
i64 processors() {
    const char *wanted = getenv("OMP_NUM_THREADS");
    i64 count = wanted ? strtol(wanted, nullptr, 10) : 0;
    if (count > 0) return count;
#if defined(__linux__)
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return CPU_COUNT(&allowed);
#endif
    return (i64)std::thread::hardware_concurrency();
}

#if defined(__unix__) || defined(__APPLE__)
// A forked child has none of its parent's threads: it begins with a pool of its own.
const int registered = pthread_atfork(nullptr, nullptr, [] { pool = new Pool; });
#endif

}  // namespace

void Member::meet_others() {
    arrived.fetch_add(1, std::memory_order_acq_rel);
    i64 all = ++meetings * count;
    await([&] { return arrived.load(std::memory_order_acquire) >= all; });
}

i64 threads_here() {
    if (!told) told = processors() > 1 ? processors() : 1;
    return told;
}

void run_together(i64 threads, void (*task)(Member &, void *), void *argument) {
    if (threads > 1 && pool->taken.try_lock()) {
        Pool *mine = pool;
        mine->run(threads, task, argument);
        mine->taken.unlock();
        return;
    }
    std::atomic<i64> nobody{0};
    Member only(0, 1, nobody);
    task(only, argument);
}

// ---- what Python calls ----------------------------------------------------------------------------------------------

// For the thread that calls, and no other.
extern "C" void use_threads(i64 count) { told = count > 1 ? count : 1; }

// How many threads a function takes unless told otherwise.
extern "C" i64 most_threads() { return processors() > 1 ? processors() : 1; }
