import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Kafka's Java client as an interop peer, in calls that every version from 2.1 on has, so that one compilation runs with all.
 *
 * <pre>
 * Client jobs.json SERVER            carries out jobs: see jobs.py
 * Client group SERVER GROUP TOPIC    a member of a group: prints every value, commits, and leaves upon SIGTERM
 * </pre>
 */
public final class Client {
    private static final long LIMIT_SECONDS = 120;
    private static final ObjectMapper JSON = new ObjectMapper();

    static {
        // Records of 20 MiB are longer in base64 than strings may be otherwise.
        JSON.getFactory().setStreamReadConstraints(StreamReadConstraints.builder().maxStringLength(100_000_000).build());
    }

    public static void main(String[] args) throws Exception {
        if (args[0].equals("group")) {
            group(args[1], args[2], args[3]);
            return;
        }
        for (JsonNode job : JSON.readTree(new File(args[0]))) {
            switch (job.get("op").asText()) {
                case "write":
                    write(args[1], job);
                    break;
                case "read":
                    read(args[1], job);
                    break;
                default:
                    admin(args[1], job.get("topic").asText());
            }
        }
    }

    private static void write(String server, JsonNode job) throws Exception {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", server);
        config.put("compression.type", job.get("codec").asText());
        config.put("enable.idempotence", job.get("idempotent").asBoolean());
        config.put("acks", "all");
        config.put("linger.ms", 50);
        config.put("batch.size", 500_000);
        config.put("max.request.size", job.get("max_bytes").asInt());
        config.put("buffer.memory", 100_000_000L);
        String topic = job.get("topic").asText();
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (JsonNode r : JSON.readTree(new File(job.get("records").asText()))) {
                ProducerRecord<byte[], byte[]> record =
                    new ProducerRecord<>(topic, 0, r.get("timestamp").asLong(), bytes(r.get("key")), bytes(r.get("value")));
                for (JsonNode h : r.get("headers")) {
                    record.headers().add(h.get("key").asText(), bytes(h.get("value")));
                }
                sent.add(producer.send(record));
            }
            for (int i = 0; i < sent.size(); i++) {
                long offset = sent.get(i).get(LIMIT_SECONDS, TimeUnit.SECONDS).offset();
                if (offset != i) {
                    throw new IllegalStateException("it was told offset " + offset + " for record " + i + " of " + topic);
                }
            }
        }
    }

    private static void read(String server, JsonNode job) throws IOException {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", server);
        config.put("enable.auto.commit", false);
        config.put("auto.offset.reset", "none");
        config.put("max.partition.fetch.bytes", job.get("max_bytes").asInt());
        TopicPartition partition = new TopicPartition(job.get("topic").asText(), 0);
        int count = job.get("count").asInt();
        ArrayNode records = JSON.createArrayNode();
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(LIMIT_SECONDS);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(config)) {
            consumer.assign(Collections.singletonList(partition));
            consumer.seek(partition, 0);
            while (records.size() < count) {
                if (System.nanoTime() > end) {
                    throw new IllegalStateException(partition + ": " + records.size() + " of " + count + " records");
                }
                for (ConsumerRecord<byte[], byte[]> r : consumer.poll(Duration.ofSeconds(1))) {
                    records.add(json(r));
                }
            }
        }
        JSON.writeValue(new File(job.get("output").asText()), records);
    }

    private static void admin(String server, String topic) throws Exception {
        try (AdminClient admin = AdminClient.create(Collections.<String, Object>singletonMap("bootstrap.servers", server))) {
            NewTopic made = new NewTopic(topic, 3, (short) 1).configs(Collections.singletonMap("retention.ms", "60000"));
            admin.createTopics(Collections.singletonList(made)).all().get(LIMIT_SECONDS, TimeUnit.SECONDS);
            if (!admin.listTopics().names().get(LIMIT_SECONDS, TimeUnit.SECONDS).contains(topic)) {
                throw new IllegalStateException(topic + " is not listed");
            }
            try (KafkaConsumer<byte[], byte[]> consumer = consumer(new HashMap<>(Collections.singletonMap("bootstrap.servers", server)))) {
                if (consumer.partitionsFor(topic).size() != 3) {
                    throw new IllegalStateException(topic + ": " + consumer.partitionsFor(topic));
                }
            }
            admin.deleteTopics(Collections.singletonList(topic)).all().get(LIMIT_SECONDS, TimeUnit.SECONDS);
        }
    }

    private static void group(String server, String group, String topic) throws InterruptedException {
        Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", server);
        config.put("group.id", group);
        config.put("auto.offset.reset", "earliest");
        config.put("enable.auto.commit", false);
        config.put("session.timeout.ms", 6000);
        config.put("heartbeat.interval.ms", 200);
        KafkaConsumer<byte[], byte[]> consumer = consumer(config);
        Thread member = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            consumer.wakeup();
            try {
                member.join(TimeUnit.SECONDS.toMillis(LIMIT_SECONDS));
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }));
        consumer.subscribe(Collections.singletonList(topic));
        try {
            while (true) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(200));
                for (ConsumerRecord<byte[], byte[]> r : records) {
                    System.out.println(new String(r.value(), StandardCharsets.UTF_8));
                }
                if (!records.isEmpty()) {
                    commit(consumer);
                }
            }
        } catch (WakeupException e) {
            consumer.close();
        }
    }

    private static void commit(KafkaConsumer<byte[], byte[]> consumer) {
        try {
            consumer.commitSync();
        } catch (CommitFailedException | RetriableException e) {
            // The next owner receives the records again, or the next commit covers them.
        }
    }

    private static KafkaConsumer<byte[], byte[]> consumer(Map<String, Object> config) {
        return new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static byte[] bytes(JsonNode text) throws IOException {
        return text.isNull() ? null : text.binaryValue();
    }

    private static ObjectNode json(ConsumerRecord<byte[], byte[]> r) {
        ObjectNode node = JSON.createObjectNode().put("offset", r.offset()).put("timestamp", r.timestamp());
        node.put("key", r.key()).put("value", r.value());
        ArrayNode headers = node.putArray("headers");
        for (Header h : r.headers()) {
            headers.addObject().put("key", h.key()).put("value", h.value());
        }
        return node;
    }
}
