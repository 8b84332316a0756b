#include <lmdb.h>

#include "store.h"

namespace peers {
namespace {

// Addresses, and a file with holes: more than any cell stores.
constexpr size_t MAP_BYTES = size_t{32} << 30;

constexpr unsigned READERS_MAX = 126;

void check(int status) {
    if (status != 0) throw std::runtime_error(std::string("lmdb: ") + mdb_strerror(status));
}

struct Ended {
    void operator()(MDB_env *env) const { mdb_env_close(env); }
    void operator()(MDB_txn *txn) const { mdb_txn_abort(txn); }
};
using Env = std::unique_ptr<MDB_env, Ended>;
using Txn = std::unique_ptr<MDB_txn, Ended>;

struct LmdbStore : Store {
    explicit LmdbStore(const Setup &setup) {
        MDB_env *made = nullptr;
        check(mdb_env_create(&made));
        env.reset(made);
        check(mdb_env_set_mapsize(made, MAP_BYTES));
        check(mdb_env_set_maxreaders(made, READERS_MAX));
        // Read-ahead would only fetch what random reads do not ask for.
        unsigned flags = MDB_NORDAHEAD | (setup.is_safe ? 0 : MDB_NOSYNC | MDB_WRITEMAP);
        check(mdb_env_open(made, setup.directory.c_str(), flags, 0600));
        Txn txn = begin(0);
        check(mdb_dbi_open(txn.get(), nullptr, MDB_INTEGERKEY, &records));
        check(mdb_txn_commit(txn.release()));
    }

    Txn begin(unsigned flags) {
        MDB_txn *txn = nullptr;
        check(mdb_txn_begin(env.get(), nullptr, flags, &txn));
        return Txn(txn);
    }

    std::unique_ptr<Session> session() override;

    void flush() override { check(mdb_env_sync(env.get(), 1)); }

    Env env;
    MDB_dbi records = 0;
};

struct LmdbSession : Session {
    explicit LmdbSession(LmdbStore &store) : store(store) {}

    void put(Key key, const char *bytes, size_t count) override {
        Txn txn = store.begin(0);
        MDB_val name = {Key::bytes, const_cast<char *>(key.data())};
        MDB_val value = {count, const_cast<char *>(bytes)};
        check(mdb_put(txn.get(), store.records, &name, &value, 0));
        check(mdb_txn_commit(txn.release()));
    }

    int64_t get(Key key, char *out, size_t room) override {
        if (!reading) {
            reading = store.begin(MDB_RDONLY);
        } else {
            check(mdb_txn_renew(reading.get()));
        }
        MDB_val name = {Key::bytes, const_cast<char *>(key.data())};
        MDB_val value;
        int status = mdb_get(reading.get(), store.records, &name, &value);
        int64_t bytes = ABSENT;
        if (status == 0) {
            bytes = copy(static_cast<char *>(value.mv_data), value.mv_size, out, room);
        }
        mdb_txn_reset(reading.get());
        if (status != MDB_NOTFOUND) check(status);
        return bytes;
    }

    void remove(Key key) override {
        Txn txn = store.begin(0);
        MDB_val name = {Key::bytes, const_cast<char *>(key.data())};
        int status = mdb_del(txn.get(), store.records, &name, nullptr);
        if (status != MDB_NOTFOUND) check(status);
        check(mdb_txn_commit(txn.release()));
    }

    LmdbStore &store;
    // Kept from get to get, and renewed.
    Txn reading;
};

std::unique_ptr<Session> LmdbStore::session() { return std::make_unique<LmdbSession>(*this); }

}  // namespace

std::unique_ptr<Store> open_lmdb(const Setup &setup) { return std::make_unique<LmdbStore>(setup); }

}  // namespace peers
