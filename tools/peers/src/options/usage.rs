//! What the program says of itself.

pub(crate) const USAGE: &str = "\
peers speed [options]      compare speeds in one interleaved run
  --rounds N               rounds, at most (7)
  --seconds N              start no new round after this time (240)
  --ops N                  measured operations a thread and sample (500000)
  --warm N                 warm-up operations after filling (2000000)
  --engines A,B            kelvin,moka,quick_cache,sharded_lru,quick_inline,empty (all);
                           only if named: kelvin-each, a table for each thread
  --workloads A,B          get90,get30,batch32,insert,insert32 (all)
  --threads A,B            1,2
  --key-bytes A,B          4,16
  --keys N                 keys of the Zipf distribution (5500000)
  --capacity N             records that every engine may hold (2000000)
  --exponent X             of the Zipf distribution (0.99)
  --changed PERCENT        overwrites that change the value (12)
  --seed N                 (1)
  --json FILE              also write all samples
peers overhead [options]   bytes a record beyond key and value
  --records N              (2000000)
  --engines A,B            kelvin,moka,quick_cache,sharded_lru,quick_inline (all)
  --json FILE
peers wire [options]       compare servers on the wire, each on one thread
  --cells A,B              tcp,unix,1k,100k,rate (all)
  --rounds N               (10)
  --duration-ms N          of a round (800)
  --warm-up-ms N           before it (200)
  --server-cpu N           where the servers run (0)
  --generator-cpus A,B     where the generator's threads run (1)
  --kelvin FILE            the program (built with cargo)
  --out DIRECTORY          tables, JSON and charts (target/wire)
peers disk [options]       compare stores on the disk, the log among them
  --records N              of 1 KiB (1000000); 4 times as many of 4 B, 1.5 % as many of 100 KiB
  --rounds N               (5)
  --window-ms N            of gets and of `safe` puts (1000)
  --cells A,B              (put,safe,cold,warm,batch) all that begin so: put-1k is put-1k-1, -4
  --engines A,B            kelvin and those built in: kyoto,kyoto-tuned,leveldb,lmdb,rocksdb,fjall;
                           only if named: kelvin-hash,kelvin-pages,kelvin-table
  --dir DIRECTORY          where the stores are made and removed again (target/disk)
  --json FILE              also write all samples
  --quiet yes              no progress on standard error
peers tables [options]     rates of stores over the number of records, as a paper has them
  --records N              of 4 B and of 1 KiB (10000000); of 100 KiB a hundredth
  --rounds N               (1)
  --window-ms N            of gets at every tenth (1000)
  --put-seconds N          the longest that a store is filled (600)
  --settle-seconds N       the longest that it is waited for until it is quiet (60)
  --values A,B             4b,1k,100k (all)
  --parts A,B              put-1,put-4,reads (all)
  --engines A,B            as of disk
  --dir DIRECTORY          where the stores are made and removed again (target/tables)
  --json FILE              also write all samples
  --svg FILE               also draw them
peers churn [options]      overwrite what stores have again and again, and remove most of it
  --records N              of 1 KiB (4000000); of 100 KiB a hundredth
  --times N                overwrites, as many times as there are records (10)
  --rounds N               (1)
  --writers N              threads, each with keys of its own (1)
  --values A,B             1k,100k (all)
  --keys A,B               uniform,zipf (all)
  --space-percent N        what the log may take of what it has to keep (130)
  --segment-mib N          of the log (64)
  --window-ms N            of puts at half the rate, and of a new store's (10000)
  --pairs N                of both, each with one of a loop without a store (5)
  --put-seconds N          the longest that a store is overwritten (900)
  --settle-seconds N       the longest that a store is waited for until it is quiet (60)
  --wait-seconds N         how long space may take to come back (60)
  --sample-ms N            between looks at the space (1000)
  --engines A,B            kelvin,leveldb, of those built in; others as of disk
  --dir DIRECTORY          where the stores are made and removed again (target/churn)
  --json FILE              also write all samples
  --svg FILE               also draw the space over time
peers tiers [options]      compare servers that keep ten times what memory holds, on one disk
  --values A,B             1k,4k,64k,512k (all)
  --keys A,B               uniform,zipf (all)
  --parts A,B              get,set (all)
  --memory-mib N           of each server (64)
  --times N                how many times as much is stored (10)
  --rounds N               (3)
  --window-ms N            of gets (3000)
  --warm-up-ms N           before it (1000)
  --settle-ms N            before what was stored is read again (2000)
  --server-cpus A,B        where the servers run (0)
  --generator-cpu N        where the generator runs (1)
  --write-mode MODE        of Kelvin: async,safe (async)
  --kelvin FILE            the program (built with cargo)
  --memcached FILE         the program ($KELVIN_PEER_MEMCACHED); left out without
  --fatcache FILE          the program; left out without
  --dir DIRECTORY          where files are made and removed again (target/tiers)
  --out DIRECTORY          the table, JSON and chart (target/tiers)
peers trace [options]      compare what servers of equal resident bytes have of traces
  --trace NAME             a file or generator, as `kelvin sim` reads it; repeatable
  --sizes A,B              percent of what all keys would take (1,3,10,30)
  --min-memory-mib N       of a cell; traces are repeated for it (64)
  --requests-max N         leave out cells with more requests (30000000)
  --seed N                 of sizes and generated traces (1)
  --kelvin FILE            the program (built with cargo)
  --json FILE
peers bare [options]       be a server that does nothing but answer: the machine's limit
  --listen ADDR            (127.0.0.1:0)
  --unix PATH              a Unix socket instead
  --io NAME                uring,epoll (uring)
  --cpus LIST              CPUs that it runs on (any)
  --value-bytes N          of the values (32)
  --keys N                 values that lie in memory (1)
  --file FILE              they lie in it instead, and it is read for each get; overwritten
";
