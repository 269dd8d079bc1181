// SPDX-License-Identifier: Apache-2.0
//
// Java's kafka-clients as t/clients/README has it, 3.9 and 4.x. It produces idempotently, which is its default.
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Client {
	static byte[] toBytes(String text) {
		return text.equals("-") ? null : HexFormat.of().parseHex(text.substring(1));
	}

	static String toText(byte[] data) {
		return data == null ? "-" : ":" + HexFormat.of().formatHex(data);
	}

	static ProducerRecord<byte[], byte[]> record(String topic, String line) {
		String[] f = line.split(" ");
		Long timestamp = f[2].equals("-") ? null : Long.valueOf(f[2]);
		var r = new ProducerRecord<>(topic, Integer.valueOf(f[0]), timestamp, toBytes(f[3]), toBytes(f[4]));
		for (int i = 5; i < f.length; i++) {
			String[] header = f[i].split("=", 2);
			r.headers().add(header[0], toBytes(header[1]));
		}
		return r;
	}

	static Properties client(String bootstrap) {
		var p = new Properties();
		String ca = System.getenv("KAFKA_TLS_CA"), me = System.getenv("KAFKA_TLS_IDENTITY");
		p.put("bootstrap.servers", bootstrap);
		if (ca != null) {
			p.put("security.protocol", "SSL");
			p.put("ssl.truststore.type", "PEM");
			p.put("ssl.truststore.location", ca);
		}
		if (me != null) {
			p.put("ssl.keystore.type", "PKCS12");
			p.put("ssl.keystore.location", me + ".p12");
			p.put("ssl.keystore.password", "secret");
			p.put("ssl.key.password", "secret");
		}
		return p;
	}

	static void produce(String bootstrap, String topic, String codec) throws Exception {
		var p = client(bootstrap);
		p.put("compression.type", codec);
		p.put("linger.ms", "200");
		p.put("batch.size", "1000000");
		p.put("delivery.timeout.ms", "60000");
		var in = new BufferedReader(new InputStreamReader(System.in));
		List<Future<RecordMetadata>> sent = new ArrayList<>();
		try (var producer = new KafkaProducer<>(p, new ByteArraySerializer(), new ByteArraySerializer())) {
			for (String line; (line = in.readLine()) != null;)
				sent.add(producer.send(record(topic, line)));
			producer.flush();
			for (var f : sent)
				f.get();
		}
	}

	static void show(ConsumerRecord<byte[], byte[]> r) {
		var line = new StringBuilder();
		line.append(r.partition()).append(' ').append(r.offset()).append(' ').append(r.timestamp());
		line.append(' ').append(toText(r.key())).append(' ').append(toText(r.value()));
		for (Header h : r.headers())
			line.append(' ').append(h.key()).append('=').append(toText(h.value()));
		System.out.println(line);
	}

	static void seek(Consumer<byte[], byte[]> c, List<TopicPartition> parts, String where,
			 Map<TopicPartition, Long> ends) {
		if (where.equals("start")) {
			c.seekToBeginning(parts);
		} else if (where.equals("end")) {
			c.seekToEnd(parts);
		} else {
			Map<TopicPartition, Long> asked = new HashMap<>();
			for (var tp : parts)
				asked.put(tp, Long.valueOf(where));
			Map<TopicPartition, OffsetAndTimestamp> found = c.offsetsForTimes(asked);
			for (var tp : parts)
				c.seek(tp, found.get(tp) == null ? ends.get(tp) : found.get(tp).offset());
		}
	}

	static boolean isBehind(Consumer<byte[], byte[]> c, Map<TopicPartition, Long> ends) {
		return ends.entrySet().stream().anyMatch(e -> c.position(e.getKey()) < e.getValue());
	}

	static void consume(String bootstrap, String topic, String where, int count) {
		var p = client(bootstrap);
		p.put("enable.auto.commit", "false");
		p.put("auto.offset.reset", "none");
		try (var c = new KafkaConsumer<>(p, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
			List<TopicPartition> parts = new ArrayList<>();
			c.partitionsFor(topic).forEach(i -> parts.add(new TopicPartition(topic, i.partition())));
			Map<TopicPartition, Long> ends = c.endOffsets(parts);
			c.assign(parts);
			seek(c, parts, where, ends);
			for (int seen = 0; count > 0 ? seen < count : isBehind(c, ends);) {
				for (var r : c.poll(Duration.ofMillis(500))) {
					show(r);
					seen++;
				}
			}
		}
	}

	/** Sizes of a topic's partitions, and who wrote to them. */
	static void describe(String bootstrap, String topic) throws Exception {
		try (var admin = Admin.create(client(bootstrap))) {
			List<TopicPartition> parts = new ArrayList<>();
			var about = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
			about.partitions().forEach(i -> parts.add(new TopicPartition(topic, i.partition())));
			int broker = about.partitions().get(0).leader().id();
			admin.describeLogDirs(List.of(broker)).allDescriptions().get().get(broker).forEach((name, dir) -> {
				for (var tp : parts)
					System.out.println("size " + tp.partition() + " " + dir.replicaInfos().get(tp).size() + " " + name);
			});
			for (var e : admin.describeProducers(parts).all().get().entrySet())
				for (var p : e.getValue().activeProducers())
					System.out.println("producer " + e.getKey().partition() + " " + p.producerId() + " " + p.producerEpoch() + " " +
						p.lastSequence());
		}
	}

	/** Prints what it is assigned when that changes: with the cooperative assignor that is more than the callback says. */
	static void group(String bootstrap, String topic, String name, String instance) throws Exception {
		var p = client(bootstrap);
		p.put("group.id", name);
		p.put("enable.auto.commit", "false");
		p.put("auto.offset.reset", "earliest");
		p.put("session.timeout.ms", "6000");
		p.put("heartbeat.interval.ms", "500");
		if (instance != null)
			p.put("group.instance.id", instance);
		var c = new KafkaConsumer<>(p, new ByteArrayDeserializer(), new ByteArrayDeserializer());
		var stopped = new AtomicBoolean();
		Thread main = Thread.currentThread();
		Runtime.getRuntime().addShutdownHook(new Thread(() -> {
			stopped.set(true);
			try {
				main.join(20000);
			} catch (InterruptedException e) {
			}
			Runtime.getRuntime().halt(0);   // SIGTERM is how it is asked to leave
		}));
		c.subscribe(List.of(topic), new ConsumerRebalanceListener() {
			public void onPartitionsRevoked(Collection<TopicPartition> parts) {
			}

			public void onPartitionsAssigned(Collection<TopicPartition> parts) {
				var line = new StringBuilder("=");
				c.assignment().stream().mapToInt(TopicPartition::partition).sorted().forEach(i -> line.append(" ").append(i));
				System.out.println(line);
			}
		});
		while (!stopped.get()) {
			for (var r : c.poll(Duration.ofMillis(200))) {
				show(r);
				try {
					c.commitSync(Map.of(new TopicPartition(topic, r.partition()), new OffsetAndMetadata(r.offset() + 1)));
				} catch (CommitFailedException | RebalanceInProgressException e) {  // it is somebody else's by now
					System.err.println(e);
				}
			}
		}
		c.close();
	}

	static void stream(String bootstrap, String topic, int count) throws Exception {
		var p = client(bootstrap);
		p.put("linger.ms", "5");
		var acked = new AtomicInteger();
		List<Future<RecordMetadata>> sent = new ArrayList<>();
		try (var producer = new KafkaProducer<>(p, new ByteArraySerializer(), new ByteArraySerializer())) {
			for (int i = 0; i < count; i++) {
				var r = new ProducerRecord<byte[], byte[]>(topic, i % 4, null, String.valueOf(i).getBytes());
				sent.add(producer.send(r, (m, e) -> {
					if (e == null && acked.incrementAndGet() % 20 == 0)
						System.out.println("+ " + acked.get());
				}));
				Thread.sleep(3);
			}
			for (var f : sent)
				f.get();
		}
	}

	static String step(Admin a, String topic, String what) throws Exception {
		var resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
		switch (what) {
		case "create":
			a.createTopics(List.of(new NewTopic(topic, 2, (short)1).configs(Map.of("retention.ms", "3600000")))).all().get();
			return "created";
		case "describe":
			int n = a.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
			String ms = a.describeConfigs(List.of(resource)).all().get().get(resource).get("retention.ms").value();
			return "partitions " + n + " retention.ms " + ms;
		case "alter":
			var op = new AlterConfigOp(new ConfigEntry("retention.ms", "7200000"), AlterConfigOp.OpType.SET);
			a.incrementalAlterConfigs(Map.of(resource, List.of(op))).all().get();
			return "altered";
		case "grow":
			a.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all().get();
			return "grown";
		case "list":
			return "listed " + (a.listTopics().names().get().contains(topic) ? "yes" : "no");
		default:
			a.deleteTopics(List.of(topic)).all().get();
			return "deleted";
		}
	}

	static void admin(String bootstrap, String topic, List<String> steps) throws Exception {
		try (var a = Admin.create(client(bootstrap))) {
			for (String s : steps)
				System.out.println(step(a, topic, s));
		}
	}

	public static void main(String[] args) throws Exception {
		String more = args.length > 4 ? args[4] : null;
		switch (args[0]) {
		case "produce":
			produce(args[1], args[2], args[3]);
			break;
		case "consume":
			consume(args[1], args[2], args[3], more == null ? 0 : Integer.parseInt(more));
			break;
		case "group":
			group(args[1], args[2], args[3], more);
			break;
		case "stream":
			stream(args[1], args[2], Integer.parseInt(args[3]));
			break;
		case "describe":
			describe(args[1], args[2]);
			break;
		default:
			admin(args[1], args[2], List.of(args).subList(3, args.length));
		}
	}
}
