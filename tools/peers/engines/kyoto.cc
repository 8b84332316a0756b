#include <kchashdb.h>

#include "store.h"

namespace peers {
namespace {

constexpr int64_t TUNED_MAP_BYTES = int64_t{8} << 30;

struct KyotoStore : Store {
    KyotoStore(const Setup &setup, bool is_tuned) {
        if (is_tuned) {
            check(db.tune_buckets(2 * static_cast<int64_t>(setup.records)));
            check(db.tune_map(TUNED_MAP_BYTES));
        }
        using kyotocabinet::HashDB;
        uint32_t mode = HashDB::OWRITER | HashDB::OCREATE;
        if (setup.is_safe) mode |= HashDB::OAUTOSYNC;
        check(db.open(setup.directory + "/records.kch", mode));
    }

    void check(bool is_done) {
        if (is_done) return;
        throw std::runtime_error(std::string("kyoto cabinet: ") + db.error().message());
    }

    std::unique_ptr<Session> session() override;

    void flush() override { check(db.synchronize(true)); }

    kyotocabinet::HashDB db;
};

struct KyotoSession : Session {
    explicit KyotoSession(KyotoStore &store) : store(store) {}

    void put(Key key, const char *value, size_t bytes) override {
        store.check(store.db.set(key.data(), Key::bytes, value, bytes));
    }

    int64_t get(Key key, char *out, size_t room) override {
        int32_t bytes = store.db.get(key.data(), Key::bytes, out, room);
        if (bytes >= 0) return bytes;
        store.check(store.db.error() == kyotocabinet::BasicDB::Error::NOREC);
        return ABSENT;
    }

    void remove(Key key) override {
        if (store.db.remove(key.data(), Key::bytes)) return;
        store.check(store.db.error() == kyotocabinet::BasicDB::Error::NOREC);
    }

    KyotoStore &store;
};

std::unique_ptr<Session> KyotoStore::session() { return std::make_unique<KyotoSession>(*this); }

}  // namespace

std::unique_ptr<Store> open_kyoto(const Setup &setup, bool is_tuned) {
    return std::make_unique<KyotoStore>(setup, is_tuned);
}

}  // namespace peers
