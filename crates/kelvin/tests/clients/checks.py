"""What every Python client is driven through.

A client's script subclasses `Checks` and says how it spells each operation; a feature that the
client does not offer is not defined. `run` checks the features one by one and prints a line
`ok FEATURE` for each: the Rust test compares the list with what it expects of that client.
"""

import os
import sys
import time
import traceback

# The largest value that the server keeps by default.
VALUE_BYTES_MAX = 1024 * 1024

# Features that the server at hand has not.
LEFT_OUT = os.environ.get("KELVIN_LEFT_OUT", "").split(",")


class Checks:
    """The features, in the words of the client at hand."""

    # A time that has passed, as the client can send it.
    past = -1

    def __init__(self):
        self.client = None

    def check_get(self):
        self.client.set("get", b"value")
        assert self.client.get("get") == b"value"
        assert self.client.get("nothing") is None

    def check_set(self):
        assert self.client.set("set", b"1")
        assert self.client.set("set", b"\x00\r\n\xff")
        assert self.client.get("set") == b"\x00\r\n\xff"
        assert self.client.set("set", b"")
        assert self.client.get("set") == b""

    def check_add(self):
        assert self.client.add("add", b"1")
        assert not self.client.add("add", b"2")
        assert self.client.get("add") == b"1"

    def check_replace(self):
        assert not self.client.replace("replace", b"1")
        self.client.set("replace", b"1")
        assert self.client.replace("replace", b"2")
        assert self.client.get("replace") == b"2"

    def check_append(self):
        assert not self.client.append("append", b"2")
        self.client.set("append", b"1")
        assert self.client.append("append", b"2")
        assert self.client.get("append") == b"12"

    def check_prepend(self):
        assert not self.client.prepend("prepend", b"2")
        self.client.set("prepend", b"1")
        assert self.client.prepend("prepend", b"2")
        assert self.client.get("prepend") == b"21"

    def check_cas(self):
        self.client.set("cas", b"1")
        value, token = self.client.gets("cas")
        assert value == b"1"
        assert self.client.cas("cas", b"2", token) is True
        assert self.client.cas("cas", b"3", token) is False
        assert self.client.get("cas") == b"2"
        assert self.client.gets("nothing") == (None, None)

    def check_incr(self):
        self.client.set("incr", b"8")
        assert self.client.incr("incr", 1) == 9
        assert self.client.incr("incr", 1) == 10
        assert self.client.get("incr") == b"10"
        assert self.missing(lambda: self.client.incr("nothing", 1))

    def check_decr(self):
        self.client.set("decr", b"11")
        assert self.client.decr("decr", 1) == 10
        assert self.client.decr("decr", 1) == 9
        assert self.client.decr("decr", 100) == 0
        assert self.missing(lambda: self.client.decr("nothing", 1))

    def check_touch(self):
        self.client.set("touch", b"1")
        assert self.client.touch("touch", 100)
        assert self.client.get("touch") == b"1"
        assert not self.client.touch("nothing", 100)

    def check_delete(self):
        self.client.set("delete", b"1")
        assert self.client.delete("delete")
        assert not self.client.delete("delete")
        assert self.client.get("delete") is None

    def check_flush_all(self):
        self.client.set("flush", b"1")
        assert self.client.flush_all()
        assert self.client.get("flush") is None
        self.client.set("flush", b"2")
        assert self.client.get("flush") == b"2"

    def check_multi_get(self):
        keys = ["multi%d" % n for n in range(500)]
        for n, key in enumerate(keys):
            if n % 2 == 0:
                self.client.set(key, b"%d" % n)
        found = self.client.get_multi(keys)
        assert found == {key: b"%d" % n for n, key in enumerate(keys) if n % 2 == 0}

    def check_large_values(self):
        for size in (70_000, 300_000, VALUE_BYTES_MAX - 1024):
            value = bytes(n * 7 % 251 for n in range(1000)) * (size // 1000)
            assert self.client.set("large", value)
            assert self.client.get("large") == value
        value = b"x" * VALUE_BYTES_MAX
        assert self.client.set("largest", value)
        assert self.client.get("largest") == value
        self.client.set("larger", b"old")
        assert self.refused(lambda: self.client.set("larger", value + b"x"))
        assert self.client.get("larger") is None

    def check_expiry(self):
        self.client.set("always", b"1", 0)
        self.client.set("past", b"1", self.past)
        self.client.set("short", b"1", 1)
        self.client.set("longer", b"1", 100)
        self.client.set("kept", b"1", 1)
        self.client.touch("kept", 100)
        assert self.client.get("past") is None
        time.sleep(2.2)
        assert self.client.get("short") is None
        assert self.client.get("kept") == b"1"
        assert self.client.get("longer") == b"1"
        assert self.client.get("always") == b"1"


def run(checks):
    """Runs every check that the client has, and leaves with 1 if one failed."""
    failed = False
    for name in sorted(dir(checks)):
        if not name.startswith("check_"):
            continue
        feature = name.removeprefix("check_")
        if feature in LEFT_OUT:
            continue
        try:
            getattr(checks, name)()
            print("ok", feature)
        except Exception as error:  # every error of a client is a failed check
            failed = True
            print("failed", feature, type(error).__name__, error, flush=True)
            traceback.print_exc()
    sys.exit(1 if failed else 0)
