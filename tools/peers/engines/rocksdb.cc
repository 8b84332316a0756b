#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>

#include "store.h"

namespace peers {
namespace {

constexpr double BLOOM_BITS = 10;

void check(const rocksdb::Status &status) {
    if (!status.ok()) throw std::runtime_error("rocksdb: " + status.ToString());
}

struct RocksStore : Store {
    explicit RocksStore(const Setup &setup) {
        rocksdb::BlockBasedTableOptions table;
        table.block_cache = rocksdb::NewLRUCache(setup.cache_bytes);
        table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(BLOOM_BITS));
        rocksdb::Options options;
        options.create_if_missing = true;
        options.write_buffer_size = setup.memtable_bytes;
        options.compression = rocksdb::kNoCompression;
        options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
        rocksdb::DB *opened = nullptr;
        check(rocksdb::DB::Open(options, setup.directory, &opened));
        db.reset(opened);
        write.sync = setup.is_safe;
    }

    std::unique_ptr<Session> session() override;

    // Of all logs that are not flushed, full ones included.
    void flush() override { check(db->FlushWAL(true)); }

    rocksdb::WriteOptions write;
    std::unique_ptr<rocksdb::DB> db;
};

struct RocksSession : Session {
    explicit RocksSession(RocksStore &store) : store(store) {}

    void put(Key key, const char *value, size_t bytes) override {
        check(store.db->Put(store.write, {key.data(), Key::bytes}, {value, bytes}));
    }

    int64_t get(Key key, char *out, size_t room) override {
        value.Reset();
        auto *family = store.db->DefaultColumnFamily();
        auto status = store.db->Get(read, family, {key.data(), Key::bytes}, &value);
        if (status.IsNotFound()) return ABSENT;
        check(status);
        return copy(value.data(), value.size(), out, room);
    }

    void remove(Key key) override {
        check(store.db->Delete(store.write, {key.data(), Key::bytes}));
    }

    RocksStore &store;
    rocksdb::ReadOptions read;
    rocksdb::PinnableSlice value;
};

std::unique_ptr<Session> RocksStore::session() { return std::make_unique<RocksSession>(*this); }

}  // namespace

std::unique_ptr<Store> open_rocksdb(const Setup &setup) {
    return std::make_unique<RocksStore>(setup);
}

}  // namespace peers
