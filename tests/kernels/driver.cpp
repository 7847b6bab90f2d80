// Calls the kernels for another process, which says on standard input what to call with which memory, and reads on
// standard output what the call has written. remote.py is the other end.
//
//     driver CALLERS THREADS CALLS
//
// Each call is made by so many threads at once, which have their kernels take 1 to THREADS threads in turn, and one of
// so many CALLS (none, if that is 0) by a forked child, too: each over memory of its own, with the same bits to be
// written. Each block of memory is as large as what the function may touch, so that a sanitizer sees what lies outside.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <type_traits>
#include <unistd.h>
#include <utility>
#include <vector>

typedef int64_t i64;

struct Argument {
    double number;
    i64 whole;
    char *pointer;
};

struct Block {
    i64 size, is_written;
    std::vector<char> data;
};

struct Pointer {  // block `block` holds it at `at`; it leads into block `target`, to `place`
    i64 block, at, target, place;
};

struct Parameter {  // a number, a whole number, or a place in a block, if that is not -1
    double number;
    i64 whole, block;
};

struct Call {
    std::string name;
    std::vector<Parameter> parameters;
    std::vector<Block> blocks;
    std::vector<Pointer> pointers;
};

// ---- the functions, each of which functions.h declares with its types -----------------------------------------------

template <class P> static P as(const Argument &a) {
    if constexpr (std::is_pointer_v<P>) return (P)a.pointer;
    else if constexpr (std::is_floating_point_v<P>) return (P)a.number;
    else return (P)a.whole;
}

template <class... P, size_t... I>
static void spread(void (*function)(P...), const Argument *a, std::index_sequence<I...>) {
    function(as<P>(a[I])...);
}

template <class... P> static void invoke(void (*function)(P...), const Argument *a) {
    spread(function, a, std::index_sequence_for<P...>());
}

#define FUNCTION(name, ...) extern "C" void name(__VA_ARGS__);
#include "functions.h"
#undef FUNCTION
#define FUNCTION(name, ...) {#name, [](const Argument *a) { invoke(name, a); }},
static const std::map<std::string, void (*)(const Argument *)> functions = {
#include "functions.h"
};

// ---- a call ---------------------------------------------------------------------------------------------------------

typedef std::vector<std::unique_ptr<char[]>> Memory;

// Makes the call over a copy of its memory, and gives what that is then.
static Memory make(const Call &call, i64 threads) {
    Memory memory;
    for (const Block &block : call.blocks) {
        memory.emplace_back(new char[block.size]);
        memcpy(memory.back().get(), block.data.data(), block.size);
    }
    for (const Pointer &p : call.pointers) {
        char *target = memory[p.target].get() + p.place;
        memcpy(memory[p.block].get() + p.at, &target, sizeof target);
    }
    std::vector<Argument> arguments;
    for (const Parameter &p : call.parameters)
        arguments.push_back({p.number, p.whole, p.block >= 0 ? memory[p.block].get() + p.whole : nullptr});
    use_threads(threads);
    functions.at(call.name)(arguments.data());
    return memory;
}

static bool are_same(const Call &call, const Memory &a, const Memory &b) {
    for (size_t i = 0; i < call.blocks.size(); i++)
        if (call.blocks[i].is_written && memcmp(a[i].get(), b[i].get(), call.blocks[i].size)) return false;
    return true;
}

static void fail(const Call &call, const char *what) {
    fprintf(stderr, "driver: %s: %s\n", call.name.c_str(), what);
    _exit(1);
}

static Memory make_at_once(const Call &call, i64 turn, i64 callers, i64 most_threads) {
    std::vector<Memory> made(callers);
    std::vector<std::thread> others;
    auto threads = [&](i64 caller) { return 1 + (turn + caller) % most_threads; };
    for (i64 i = 1; i < callers; i++) others.emplace_back([&, i] { made[i] = make(call, threads(i)); });
    made[0] = make(call, threads(0));
    for (std::thread &other : others) other.join();
    for (const Memory &each : made)
        if (!are_same(call, made[0], each)) fail(call, "callers with other numbers of threads have other results");
    return std::move(made[0]);
}

static void make_in_child(const Call &call, const Memory &expected) {
    pid_t child = fork();
    if (child == 0) _exit(!are_same(call, make(call, 2), expected));
    int status = 1;
    if (child < 0 || waitpid(child, &status, 0) != child || status) fail(call, "a forked child has other results");
}

// ---- the other process ----------------------------------------------------------------------------------------------

static void receive(void *to, i64 size) {
    if (size && fread(to, size, 1, stdin) != 1) exit(0);  // that was all
}

static i64 receive_number() {
    i64 number;
    receive(&number, sizeof number);
    return number;
}

template <class Item> static std::vector<Item> receive_all() {
    std::vector<Item> items(receive_number());
    receive(items.data(), items.size() * sizeof(Item));
    return items;
}

static Call receive_call() {
    Call call;
    std::vector<char> name = receive_all<char>();
    call.name.assign(name.begin(), name.end());
    call.parameters = receive_all<Parameter>();
    call.pointers = receive_all<Pointer>();
    call.blocks.resize(receive_number());
    for (Block &block : call.blocks) {
        block.is_written = receive_number();
        block.data = receive_all<char>();
        block.size = (i64)block.data.size();
    }
    return call;
}

int main(int, char **arguments) {
    const i64 callers = atol(arguments[1]), threads = atol(arguments[2]), calls = atol(arguments[3]);
    for (i64 turn = 1;; turn++) {
        Call call = receive_call();
        Memory memory = make_at_once(call, turn, callers, threads);
        if (calls && turn % calls == 0) make_in_child(call, memory);
        for (size_t i = 0; i < memory.size(); i++)
            if (call.blocks[i].is_written) fwrite(memory[i].get(), call.blocks[i].size, 1, stdout);
        fflush(stdout);
    }
}
