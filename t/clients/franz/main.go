// SPDX-License-Identifier: Apache-2.0

// franz-go as t/clients/README has it. It produces idempotently, which is its default.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func toBytes(text string) []byte {
	if text == "-" {
		return nil
	}
	data, err := hex.DecodeString(text[1:])
	check(err)
	return data
}

func toText(data []byte) string {
	if data == nil {
		return "-"
	}
	return ":" + hex.EncodeToString(data)
}

func record(topic, line string) *kgo.Record {
	f := strings.Fields(line)
	partition, err := strconv.Atoi(f[0])
	check(err)
	r := &kgo.Record{Topic: topic, Partition: int32(partition), Key: toBytes(f[3]), Value: toBytes(f[4])}
	if f[2] != "-" {
		ms, err := strconv.ParseInt(f[2], 10, 64)
		check(err)
		r.Timestamp = time.UnixMilli(ms)
	}
	for _, h := range f[5:] {
		name, value, _ := strings.Cut(h, "=")
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: toBytes(value)})
	}
	return r
}

// seeds is where to begin, and how.
func seeds(bootstrap string) []kgo.Opt {
	opts := []kgo.Opt{kgo.SeedBrokers(bootstrap)}
	ca, me := os.Getenv("KAFKA_TLS_CA"), os.Getenv("KAFKA_TLS_IDENTITY")
	if ca == "" {
		return opts
	}
	text, err := os.ReadFile(ca)
	check(err)
	c := &tls.Config{RootCAs: x509.NewCertPool()}
	c.RootCAs.AppendCertsFromPEM(text)
	if me != "" {
		pair, err := tls.LoadX509KeyPair(me+".pem", me+".key")
		check(err)
		c.Certificates = []tls.Certificate{pair}
	}
	return append(opts, kgo.DialTLSConfig(c))
}

func produce(ctx context.Context, bootstrap, topic, codec string) {
	c, err := kgo.NewClient(append(seeds(bootstrap), kgo.ProducerBatchCompression(codecs[codec]),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(200*time.Millisecond))...)
	check(err)
	var rows []*kgo.Record
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		rows = append(rows, record(topic, in.Text()))
	}
	check(in.Err())
	check(c.ProduceSync(ctx, rows...).FirstErr())
	c.Close()
}

func partitions(ctx context.Context, c *kgo.Client, topic string) (found []int32) {
	m := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = kmsg.StringPtr(topic)
	m.Topics = append(m.Topics, t)
	meta, err := m.RequestWith(ctx, c)
	check(err)
	for _, p := range meta.Topics[0].Partitions {
		found = append(found, p.Partition)
	}
	return found
}

// listOffsets asks for the first offset at or after a time, or for the end (-1).
func listOffsets(ctx context.Context, c *kgo.Client, topic string, parts []int32, ms int64) map[int32]int64 {
	m := kmsg.NewPtrListOffsetsRequest()
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	for _, p := range parts {
		tp := kmsg.NewListOffsetsRequestTopicPartition()
		tp.Partition, tp.Timestamp = p, ms
		t.Partitions = append(t.Partitions, tp)
	}
	m.Topics = append(m.Topics, t)
	answer, err := m.RequestWith(ctx, c)
	check(err)
	found := map[int32]int64{}
	for _, p := range answer.Topics[0].Partitions {
		check(kerr.ErrorForCode(p.ErrorCode))
		found[p.Partition] = p.Offset
	}
	return found
}

// place is where to begin. Beyond the last timestamp, "after" means the end.
func place(where string) kgo.Offset {
	switch where {
	case "start":
		return kgo.NewOffset().AtStart()
	case "end":
		return kgo.NewOffset().AtEnd()
	}
	ms, err := strconv.ParseInt(where, 10, 64)
	check(err)
	return kgo.NewOffset().AfterMilli(ms)
}

func show(r *kgo.Record) {
	fmt.Printf("%d %d %d %s %s", r.Partition, r.Offset, r.Timestamp.UnixMilli(), toText(r.Key), toText(r.Value))
	for _, h := range r.Headers {
		fmt.Printf(" %s=%s", h.Key, toText(h.Value))
	}
	fmt.Println()
}

func consume(ctx context.Context, bootstrap, topic, where string, count int) {
	c, err := kgo.NewClient(seeds(bootstrap)...)
	check(err)
	parts := partitions(ctx, c, topic)
	end, from := listOffsets(ctx, c, topic, parts, -1), map[int32]int64{}
	if ms, err := strconv.ParseInt(where, 10, 64); err == nil {
		from = listOffsets(ctx, c, topic, parts, ms)
	}
	open, at := map[int32]bool{}, map[int32]kgo.Offset{}
	for _, p := range parts {
		at[p] = place(where)
		if end[p] > 0 && from[p] >= 0 {
			open[p] = true
		}
	}
	c.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: at})
	for seen := 0; count > 0 && seen < count || count == 0 && len(open) > 0; {
		f := c.PollFetches(ctx)
		check(f.Err())
		f.EachRecord(func(r *kgo.Record) {
			show(r)
			seen++
			if r.Offset+1 >= end[r.Partition] {
				delete(open, r.Partition)
			}
		})
	}
	c.Close()
}

// group is a member until SIGTERM.
func group(ctx context.Context, bootstrap, topic, name string, more []string) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	held := map[int32]bool{}
	change := func(parts []int32, is bool) {
		for _, p := range parts {
			if is {
				held[p] = true
			} else {
				delete(held, p)
			}
		}
	}
	opts := append(seeds(bootstrap), kgo.ConsumerGroup(name), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.SessionTimeout(6*time.Second),
		kgo.HeartbeatInterval(500*time.Millisecond), kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, gone map[string][]int32) { change(gone[topic], false) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, gone map[string][]int32) { change(gone[topic], false) }),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, come map[string][]int32) {
			change(come[topic], true)
			line := "="
			for _, p := range slices.Sorted(maps.Keys(held)) {
				line += fmt.Sprintf(" %d", p)
			}
			fmt.Println(line)
		}))
	if len(more) > 0 {
		opts = append(opts, kgo.InstanceID(more[0]))
	}
	c, err := kgo.NewClient(opts...)
	check(err)
	for ctx.Err() == nil {
		f := c.PollRecords(ctx, 1)
		f.EachRecord(func(r *kgo.Record) {
			show(r)
			if err := c.CommitRecords(context.Background(), r); err != nil { // it is somebody else's by now
				fmt.Fprintln(os.Stderr, err)
			}
		})
		c.AllowRebalance()
	}
	c.CloseAllowingRebalance()
}

func stream(ctx context.Context, bootstrap, topic string, count int) {
	c, err := kgo.NewClient(append(seeds(bootstrap), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()))...)
	check(err)
	acked := 0
	for i := range count {
		r := &kgo.Record{Topic: topic, Partition: int32(i % 4), Value: []byte(strconv.Itoa(i))}
		c.Produce(ctx, r, func(_ *kgo.Record, err error) {
			check(err)
			if acked++; acked%20 == 0 {
				fmt.Println("+", acked)
			}
		})
		time.Sleep(3 * time.Millisecond)
	}
	check(c.Flush(ctx))
	c.Close()
}

func step(ctx context.Context, a *kadm.Client, topic, what string) string {
	switch what {
	case "create":
		_, err := a.CreateTopic(ctx, 2, 1, map[string]*string{"retention.ms": kadm.StringPtr("3600000")}, topic)
		check(err)
		return "created"
	case "describe":
		topics, err := a.ListTopics(ctx, topic)
		check(err)
		configs, err := a.DescribeTopicConfigs(ctx, topic)
		check(err)
		for _, c := range configs[0].Configs {
			if c.Key == "retention.ms" {
				return fmt.Sprintf("partitions %d retention.ms %s", len(topics[topic].Partitions), c.MaybeValue())
			}
		}
		return "no retention.ms"
	case "alter":
		set := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: kadm.StringPtr("7200000")}}
		answers, err := a.AlterTopicConfigs(ctx, set, topic)
		check(err)
		check(answers[0].Err)
		return "altered"
	case "grow":
		answers, err := a.UpdatePartitions(ctx, 3, topic)
		check(err)
		check(answers.Error())
		return "grown"
	case "list":
		topics, err := a.ListTopics(ctx)
		check(err)
		if topics.Has(topic) {
			return "listed yes"
		}
		return "listed no"
	}
	answers, err := a.DeleteTopics(ctx, topic)
	check(err)
	check(answers.Error())
	return "deleted"
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	what, bootstrap, topic, more := os.Args[1], os.Args[2], os.Args[3], os.Args[4:]
	number := func(i int) (n int) {
		if len(more) > i {
			n, _ = strconv.Atoi(more[i])
		}
		return n
	}
	switch what {
	case "produce":
		produce(ctx, bootstrap, topic, more[0])
	case "consume":
		consume(ctx, bootstrap, topic, more[0], number(1))
	case "group":
		group(ctx, bootstrap, topic, more[0], more[1:])
	case "stream":
		stream(ctx, bootstrap, topic, number(0))
	case "admin":
		c, err := kgo.NewClient(seeds(bootstrap)...)
		check(err)
		for _, s := range more {
			fmt.Println(step(ctx, kadm.NewClient(c), topic, s))
		}
	}
}
