// Command clients drives gomemcache: `clients HOST:PORT | /PATH/OF/SOCKET`. It prints a line
// `ok FEATURE` for each feature that works.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
)

// valueBytesMax is the largest value that the server keeps by default.
const valueBytesMax = 1024 * 1024

var client *memcache.Client

func item(key, value string) *memcache.Item {
	return &memcache.Item{Key: key, Value: []byte(value)}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func is(err, want error) {
	if !errors.Is(err, want) {
		panic(fmt.Sprintf("got %v, want %v", err, want))
	}
}

func holds(key, want string) {
	got, err := client.Get(key)
	must(err)
	if string(got.Value) != want {
		panic(fmt.Sprintf("%s holds %.80q, want %.80q", key, got.Value, want))
	}
}

func gone(key string) {
	_, err := client.Get(key)
	is(err, memcache.ErrCacheMiss)
}

func checkGet() {
	must(client.Set(&memcache.Item{Key: "get", Value: []byte("value"), Flags: 77}))
	got, err := client.Get("get")
	must(err)
	if string(got.Value) != "value" || got.Flags != 77 {
		panic(fmt.Sprintf("%+v", got))
	}
	gone("nothing")
}

func checkSet() {
	for _, value := range []string{"1", "", "\x00\r\nEND\r\n\xff"} {
		must(client.Set(item("set", value)))
		holds("set", value)
	}
	is(client.Set(item("bad key", "x")), memcache.ErrMalformedKey)
}

func checkAdd() {
	must(client.Add(item("add", "1")))
	is(client.Add(item("add", "2")), memcache.ErrNotStored)
	holds("add", "1")
}

func checkReplace() {
	is(client.Replace(item("replace", "1")), memcache.ErrNotStored)
	must(client.Set(item("replace", "1")))
	must(client.Replace(item("replace", "2")))
	holds("replace", "2")
}

func checkAppend() {
	is(client.Append(item("append", "1")), memcache.ErrNotStored)
	must(client.Set(item("append", "1")))
	must(client.Append(item("append", "2")))
	holds("append", "12")
}

func checkPrepend() {
	is(client.Prepend(item("prepend", "1")), memcache.ErrNotStored)
	must(client.Set(item("prepend", "1")))
	must(client.Prepend(item("prepend", "2")))
	holds("prepend", "21")
}

func checkCas() {
	must(client.Set(item("cas", "1")))
	first, err := client.Get("cas")
	must(err)
	second, err := client.Get("cas")
	must(err)
	first.Value = []byte("2")
	must(client.CompareAndSwap(first))
	second.Value = []byte("3")
	is(client.CompareAndSwap(second), memcache.ErrCASConflict)
	holds("cas", "2")
	must(client.Delete("cas"))
	is(client.CompareAndSwap(second), memcache.ErrCacheMiss)
}

func number(key string, change func(string, uint64) (uint64, error), delta, want uint64) {
	got, err := change(key, delta)
	must(err)
	if got != want {
		panic(fmt.Sprintf("%s is %d, want %d", key, got, want))
	}
}

func checkIncr() {
	must(client.Set(item("incr", "8")))
	number("incr", client.Increment, 2, 10)
	number("incr", client.Increment, 1<<64-1, 9)
	_, err := client.Increment("nothing", 1)
	is(err, memcache.ErrCacheMiss)
	must(client.Set(item("incr", "x")))
	if _, err := client.Increment("incr", 1); err == nil {
		panic("a word was incremented")
	}
}

func checkDecr() {
	must(client.Set(item("decr", "11")))
	number("decr", client.Decrement, 2, 9)
	number("decr", client.Decrement, 100, 0)
	_, err := client.Decrement("nothing", 1)
	is(err, memcache.ErrCacheMiss)
}

func checkTouch() {
	must(client.Set(item("touch", "1")))
	must(client.Touch("touch", 100))
	holds("touch", "1")
	is(client.Touch("nothing", 100), memcache.ErrCacheMiss)
}

func checkGat() {
	must(client.Set(&memcache.Item{Key: "gat", Value: []byte("1"), Expiration: 1}))
	got, err := client.GetAndTouch("gat", 100)
	must(err)
	if string(got.Value) != "1" {
		panic(fmt.Sprintf("%q", got.Value))
	}
	_, err = client.GetAndTouch("nothing", 100)
	is(err, memcache.ErrCacheMiss)
	time.Sleep(2200 * time.Millisecond)
	holds("gat", "1")
}

func checkDelete() {
	must(client.Set(item("delete", "1")))
	must(client.Delete("delete"))
	is(client.Delete("delete"), memcache.ErrCacheMiss)
	gone("delete")
}

func checkFlushAll() {
	must(client.Set(item("flush", "1")))
	must(client.FlushAll())
	gone("flush")
	must(client.Set(item("flush", "2")))
	holds("flush", "2")
	must(client.DeleteAll())
	gone("flush")
	must(client.Ping())
}

func checkMultiGet() {
	var keys []string
	for n := 0; n < 500; n++ {
		key := "multi" + strconv.Itoa(n)
		keys = append(keys, key)
		if n%2 == 0 {
			must(client.Set(item(key, strconv.Itoa(n))))
		}
	}
	found, err := client.GetMulti(keys)
	must(err)
	if len(found) != 250 {
		panic(fmt.Sprintf("%d found", len(found)))
	}
	for n := 0; n < 500; n += 2 {
		if got := found["multi"+strconv.Itoa(n)]; string(got.Value) != strconv.Itoa(n) {
			panic(fmt.Sprintf("%d is %q", n, got.Value))
		}
	}
}

func checkLargeValues() {
	for _, size := range []int{70000, 300000, valueBytesMax - 1024} {
		value := strings.Repeat("kelvin ", size/7)
		must(client.Set(item("large", value)))
		holds("large", value)
	}
	largest := string(bytes.Repeat([]byte("x"), valueBytesMax))
	must(client.Set(item("largest", largest)))
	holds("largest", largest)
	must(client.Set(item("larger", "old")))
	err := client.Set(item("larger", largest+"x"))
	if err == nil || !strings.Contains(err.Error(), "object too large for cache") {
		panic(fmt.Sprintf("too large, but: %v", err))
	}
	gone("larger")
}

func checkExpiry() {
	set := func(key string, expiration int32) {
		must(client.Set(&memcache.Item{Key: key, Value: []byte("1"), Expiration: expiration}))
	}
	set("always", 0)
	set("past", -1)
	set("short", 1)
	set("longer", 100)
	set("date", int32(time.Now().Unix()+100))
	set("kept", 1)
	must(client.Touch("kept", 100))
	gone("past")
	time.Sleep(2200 * time.Millisecond)
	gone("short")
	for _, key := range []string{"always", "longer", "date", "kept"} {
		holds(key, "1")
	}
}

func run(feature string, check func()) (ok bool) {
	defer func() {
		if reason := recover(); reason != nil {
			fmt.Println("failed", feature, reason)
			ok = false
		}
	}()
	check()
	fmt.Println("ok", feature)
	return true
}

func main() {
	client = memcache.New(os.Args[1])
	client.Timeout = 20 * time.Second
	checks := []struct {
		feature string
		check   func()
	}{
		{"add", checkAdd}, {"append", checkAppend}, {"cas", checkCas}, {"decr", checkDecr},
		{"delete", checkDelete}, {"expiry", checkExpiry}, {"flush_all", checkFlushAll},
		{"gat", checkGat}, {"get", checkGet}, {"incr", checkIncr},
		{"large_values", checkLargeValues}, {"multi_get", checkMultiGet},
		{"prepend", checkPrepend}, {"replace", checkReplace}, {"set", checkSet},
		{"touch", checkTouch},
	}
	ok := true
	// Features that the server at hand has not.
	leftOut := "," + os.Getenv("KELVIN_LEFT_OUT") + ","
	for _, c := range checks {
		if strings.Contains(leftOut, ","+c.feature+",") {
			continue
		}
		ok = run(c.feature, c.check) && ok
	}
	if !ok {
		os.Exit(1)
	}
}
