//go:build never

// Package exporter names the program that the tests build, so that go.mod and go.sum pin it with
// all that it needs.
package exporter

import _ "github.com/prometheus/memcached_exporter/cmd/memcached_exporter"
