import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.CloseOptions.GroupMembershipOperation;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Groups of Java consumers in one JVM, one for every built-in assignor, of dynamic and of static members. In each, members
 * fall silent without leaving, as when they are killed, and come back; every partition is owned again by one member, every
 * record is received, and what is committed is where the records end. The only argument is the server's address. Prints
 * "passed NAME" for every group.
 */
public final class Groups {
    private static final List<Class<?>> ASSIGNORS = List.of(
        RangeAssignor.class, RoundRobinAssignor.class, StickyAssignor.class, CooperativeStickyAssignor.class);
    private static final int PARTITIONS = 3; // of each of two topics
    private static final Duration LIMIT = Duration.ofSeconds(90);

    private static String server;
    private static Admin admin;
    private static KafkaProducer<String, String> producer;

    public static void main(String[] args) throws Exception {
        server = args[0];
        admin = Admin.create(Map.of("bootstrap.servers", server));
        producer = new KafkaProducer<>(Map.of("bootstrap.servers", server), new StringSerializer(), new StringSerializer());
        ExecutorService all = Executors.newCachedThreadPool();
        Map<String, Future<Void>> running = new HashMap<>();
        for (Class<?> assignor : ASSIGNORS) {
            for (boolean fixed : List.of(false, true)) {
                String name = "java-" + assignor.getSimpleName() + (fixed ? "-static" : "-dynamic");
                running.put(name, all.submit(new Group(name, assignor, fixed)));
            }
        }
        int failed = 0;
        for (Map.Entry<String, Future<Void>> one : running.entrySet()) {
            try {
                one.getValue().get();
                System.out.println("passed " + one.getKey());
            } catch (Exception e) {
                failed++;
                System.out.println("failed " + one.getKey());
                e.printStackTrace();
            }
        }
        System.exit(failed == 0 ? 0 : 1);
    }

    /** One group, its two topics, and what its members own and have received. */
    private static final class Group implements Callable<Void> {
        final String name;
        final Class<?> assignor;
        final boolean fixed;
        final List<TopicPartition> partitions = new ArrayList<>();
        final Set<String> received = ConcurrentHashMap.newKeySet();
        final Set<Throwable> faults = ConcurrentHashMap.newKeySet();
        int sent;

        Group(String name, Class<?> assignor, boolean fixed) {
            this.name = name;
            this.assignor = assignor;
            this.fixed = fixed;
        }

        @Override
        public Void call() throws Exception {
            List<String> topics = List.of(name + "-1", name + "-2");
            List<NewTopic> wanted = topics.stream().map(t -> new NewTopic(t, PARTITIONS, (short) 1)).collect(Collectors.toList());
            admin.createTopics(wanted).all().get();
            for (String topic : topics) {
                for (int p = 0; p < PARTITIONS; p++) {
                    partitions.add(new TopicPartition(topic, p));
                }
            }
            Member a = new Member("a", topics);
            Member b = new Member("b", topics);
            Member c = new Member("c", topics);
            owned(a, b, c);
            exchange();

            if (fixed) { // it comes back with its name before its session ends: nobody else notices
                Set<TopicPartition> owned = c.owned;
                int rounds = a.rounds + b.rounds;
                c.end(false);
                c = new Member("c", topics);
                owned(a, b, c);
                check(c.owned.equals(owned), "the member owns " + c.owned + " and owned " + owned);
                check(a.rounds + b.rounds == rounds, "the others were rebalanced");
                exchange();
            }

            c.end(false); // silent: its session ends
            owned(a, b);
            exchange();

            Member d = new Member("d", topics);
            owned(a, b, d);
            exchange();

            for (Member m : List.of(a, b, d)) {
                m.end(true);
            }
            await("an empty group", () -> state() == GroupState.EMPTY);
            committed();
            return null;
        }

        GroupState state() {
            try {
                return admin.describeConsumerGroups(List.of(name)).all().get().get(name).groupState();
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
        }

        /** Waits until these members own every partition once. */
        void owned(Member... members) {
            await("every partition to be owned by " + members.length, () -> {
                Set<TopicPartition> all = new HashSet<>();
                int owned = 0;
                for (Member m : members) {
                    Set<TopicPartition> its = m.owned;
                    owned += its.size();
                    all.addAll(its);
                    if (its.isEmpty()) {
                        return false;
                    }
                }
                return owned == partitions.size() && all.size() == owned && state() == GroupState.STABLE;
            });
        }

        /** Sends records to every partition and waits until all were received. */
        void exchange() throws Exception {
            Set<String> values = new HashSet<>();
            for (TopicPartition p : partitions) {
                for (int i = 0; i < 5; i++) {
                    String value = name + "-" + sent++;
                    values.add(value);
                    producer.send(new ProducerRecord<>(p.topic(), p.partition(), null, value));
                }
            }
            producer.flush();
            await("every record", () -> received.containsAll(values));
        }

        /** Checks that what is committed is where the records end. */
        void committed() throws Exception {
            Map<TopicPartition, OffsetAndMetadata> offsets = admin.listConsumerGroupOffsets(name).partitionsToOffsetAndMetadata().get();
            Map<TopicPartition, OffsetSpec> latest = partitions.stream().collect(Collectors.toMap(p -> p, p -> OffsetSpec.latest()));
            for (Map.Entry<TopicPartition, ListOffsetsResult.ListOffsetsResultInfo> end : admin.listOffsets(latest).all().get().entrySet()) {
                OffsetAndMetadata is = offsets.get(end.getKey());
                check(is != null && is.offset() == end.getValue().offset(), end.getKey() + ": " + is + " and " + end.getValue());
            }
        }

        void check(boolean good, String otherwise) {
            if (!good) {
                throw new IllegalStateException(name + ": " + otherwise);
            }
        }

        void await(String what, BooleanSupplier holds) {
            long end = System.nanoTime() + LIMIT.toNanos();
            while (!holds.getAsBoolean()) {
                for (Throwable fault : faults) {
                    throw new IllegalStateException(name + ": a member failed", fault);
                }
                check(System.nanoTime() < end, "waited in vain for " + what);
                try {
                    Thread.sleep(100);
                } catch (InterruptedException e) {
                    throw new IllegalStateException(e);
                }
            }
        }

        /** A consumer in a thread of its own, which commits what it has received. */
        final class Member implements ConsumerRebalanceListener {
            final KafkaConsumer<String, String> consumer;
            final Thread thread = new Thread(this::run);
            volatile Set<TopicPartition> owned = Set.of();
            volatile int rounds; // of rebalances that gave it something to do
            volatile boolean ending;
            volatile boolean leaving;

            Member(String member, List<String> topics) {
                Map<String, Object> config = new HashMap<>(Map.of(
                    "bootstrap.servers", server, "group.id", name, "client.id", name + "-" + member,
                    "partition.assignment.strategy", assignor.getName(), "auto.offset.reset", "earliest",
                    "enable.auto.commit", false, "session.timeout.ms", 6000, "heartbeat.interval.ms", 200));
                if (fixed) {
                    config.put("group.instance.id", member);
                }
                consumer = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
                consumer.subscribe(topics, this);
                thread.start();
            }

            @Override
            public void onPartitionsAssigned(Collection<TopicPartition> assigned) {
                rounds++;
                Set<TopicPartition> now = new HashSet<>(owned);
                now.addAll(assigned);
                owned = Set.copyOf(now);
            }

            @Override
            public void onPartitionsRevoked(Collection<TopicPartition> revoked) {
                Set<TopicPartition> now = new HashSet<>(owned);
                now.removeAll(revoked);
                owned = Set.copyOf(now);
            }

            void run() {
                try {
                    while (!ending) {
                        ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
                        for (ConsumerRecord<String, String> r : records) {
                            received.add(r.value());
                        }
                        if (!records.isEmpty()) {
                            commit();
                        }
                    }
                    consumer.commitSync();
                } catch (Throwable e) {
                    faults.add(e);
                } finally {
                    // A consumer that remains says nothing more: to the others it is one that was killed.
                    consumer.close(CloseOptions.groupMembershipOperation(
                        leaving ? GroupMembershipOperation.LEAVE_GROUP : GroupMembershipOperation.REMAIN_IN_GROUP));
                }
            }

            void commit() {
                try {
                    consumer.commitSync();
                } catch (RebalanceInProgressException | CommitFailedException e) {
                    // The next owner receives the records again, or the next commit covers them.
                }
            }

            void end(boolean leave) throws InterruptedException {
                leaving = leave;
                ending = true;
                thread.join(LIMIT.toMillis());
                check(!thread.isAlive(), "a member does not end");
            }
        }
    }
}
