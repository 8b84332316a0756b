#include <fcntl.h>
#include <leveldb/cache.h>
#include <leveldb/db.h>
#include <leveldb/filter_policy.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>

#include "store.h"

namespace peers {
namespace {

constexpr int BLOOM_BITS = 10;

// The most that it takes. As it comes, 1000, it opens tables anew all the time when the set is large.
constexpr int OPEN_FILES_MAX = 50000;

void check(const leveldb::Status &status) {
    if (!status.ok()) throw std::runtime_error("leveldb: " + status.ToString());
}

// Of the files that the process may have open LevelDB keeps a fifth, and asks once.
void allow_open_files() {
    rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

struct LevelStore : Store {
    explicit LevelStore(const Setup &setup)
        : directory(setup.directory),
          cache(leveldb::NewLRUCache(setup.cache_bytes)),
          filter(leveldb::NewBloomFilterPolicy(BLOOM_BITS)) {
        allow_open_files();
        leveldb::Options options;
        options.max_open_files = OPEN_FILES_MAX;
        options.create_if_missing = true;
        options.write_buffer_size = setup.memtable_bytes;
        options.block_cache = cache.get();
        options.filter_policy = filter.get();
        options.compression = leveldb::kNoCompression;
        leveldb::DB *opened = nullptr;
        check(leveldb::DB::Open(options, directory, &opened));
        db.reset(opened);
        write.sync = setup.is_safe;
    }

    std::unique_ptr<Session> session() override;

    // A log that was full is closed unflushed, and its memtable may still be on its way. So all
    // logs that there are get flushed; what became of the others was flushed with its table.
    void flush() override {
        for (const auto &entry : std::filesystem::directory_iterator(directory)) {
            if (entry.path().extension() != ".log") continue;
            int fd = open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
            // It was removed meanwhile: then its table is there.
            if (fd < 0) continue;
            int status = fdatasync(fd);
            close(fd);
            if (status != 0) throw std::runtime_error("leveldb: fdatasync");
        }
    }

    std::string directory;
    std::unique_ptr<leveldb::Cache> cache;
    std::unique_ptr<const leveldb::FilterPolicy> filter;
    leveldb::WriteOptions write;
    // Last: it is closed first.
    std::unique_ptr<leveldb::DB> db;
};

struct LevelSession : Session {
    explicit LevelSession(LevelStore &store) : store(store) {}

    void put(Key key, const char *value, size_t bytes) override {
        check(store.db->Put(store.write, {key.data(), Key::bytes}, {value, bytes}));
    }

    int64_t get(Key key, char *out, size_t room) override {
        auto status = store.db->Get({}, {key.data(), Key::bytes}, &value);
        if (status.IsNotFound()) return ABSENT;
        check(status);
        return copy(value.data(), value.size(), out, room);
    }

    void remove(Key key) override {
        check(store.db->Delete(store.write, {key.data(), Key::bytes}));
    }

    LevelStore &store;
    std::string value;
};

std::unique_ptr<Session> LevelStore::session() { return std::make_unique<LevelSession>(*this); }

}  // namespace

std::unique_ptr<Store> open_leveldb(const Setup &setup) {
    return std::make_unique<LevelStore>(setup);
}

}  // namespace peers
