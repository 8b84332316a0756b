// The functions that Rust calls. Nothing is thrown across them: 0 is done, and what went wrong is
// kept for the thread that asks.

#include "store.h"

using peers::Key;
using peers::Session;
using peers::Setup;
using peers::Store;

namespace {

constexpr int64_t FAILED = -2;

thread_local std::string last_error;

std::unique_ptr<Store> open_by_name(const std::string &name, const Setup &setup) {
#ifdef PEERS_LEVELDB
    if (name == "leveldb") return peers::open_leveldb(setup);
#endif
#ifdef PEERS_ROCKSDB
    if (name == "rocksdb") return peers::open_rocksdb(setup);
#endif
#ifdef PEERS_LMDB
    if (name == "lmdb") return peers::open_lmdb(setup);
#endif
#ifdef PEERS_KYOTO
    if (name == "kyoto") return peers::open_kyoto(setup, false);
    if (name == "kyoto-tuned") return peers::open_kyoto(setup, true);
#endif
    throw std::runtime_error("no store " + name);
}

template <typename T, typename Call>
T guarded(T on_error, Call call) noexcept {
    try {
        return call();
    } catch (const std::exception &error) {
        last_error = error.what();
        return on_error;
    }
}

}  // namespace

extern "C" {

Store *peers_open(const char *name, const char *directory, uint64_t memtable_bytes,
                  uint64_t cache_bytes, uint64_t records, int is_safe) {
    return guarded<Store *>(nullptr, [&] {
        Setup setup{directory, memtable_bytes, cache_bytes, records, is_safe != 0};
        return open_by_name(name, setup).release();
    });
}

int peers_flush(Store *store) {
    return guarded(1, [&] { return store->flush(), 0; });
}

int peers_close(Store *store) {
    return guarded(1, [&] { return delete store, 0; });
}

Session *peers_session(Store *store) {
    return guarded<Session *>(nullptr, [&] { return store->session().release(); });
}

void peers_end(Session *session) { delete session; }

int peers_put(Session *session, uint32_t key, const char *value, size_t bytes) {
    return guarded(1, [&] { return session->put(Key{key}, value, bytes), 0; });
}

int64_t peers_get(Session *session, uint32_t key, char *out, size_t room) {
    return guarded(FAILED, [&] { return session->get(Key{key}, out, room); });
}

int peers_remove(Session *session, uint32_t key) {
    return guarded(1, [&] { return session->remove(Key{key}), 0; });
}

const char *peers_error() { return last_error.c_str(); }

}  // extern "C"
