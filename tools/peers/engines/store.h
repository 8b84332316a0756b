// What a store of this directory is to the program that measures it.
//
// Errors are exceptions; boundary.cc turns them into what Rust can take.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

namespace peers {

struct Setup {
    std::string directory;
    uint64_t memtable_bytes;
    uint64_t cache_bytes;
    uint64_t records;
    bool is_safe;
};

// A key is four bytes, as they lie in memory.
struct Key {
    uint32_t number;
    const char *data() const { return reinterpret_cast<const char *>(&number); }
    static constexpr size_t bytes = 4;
};

constexpr int64_t ABSENT = -1;

// One thread's access.
struct Session {
    virtual ~Session() = default;
    virtual void put(Key key, const char *value, size_t bytes) = 0;
    // Copies to `out` what fits, and returns the length of the value, or ABSENT.
    virtual int64_t get(Key key, char *out, size_t room) = 0;
    // It may be absent.
    virtual void remove(Key key) = 0;
};

struct Store {
    virtual ~Store() = default;
    virtual std::unique_ptr<Session> session() = 0;
    // Makes durable what was put.
    virtual void flush() = 0;
};

inline int64_t copy(const char *value, size_t bytes, char *out, size_t room) {
    std::memcpy(out, value, bytes < room ? bytes : room);
    return static_cast<int64_t>(bytes);
}

std::unique_ptr<Store> open_leveldb(const Setup &setup);
std::unique_ptr<Store> open_rocksdb(const Setup &setup);
std::unique_ptr<Store> open_lmdb(const Setup &setup);
std::unique_ptr<Store> open_kyoto(const Setup &setup, bool is_tuned);

}  // namespace peers
