// kafkajs as an interop peer. SERVER and then one of
//   write TOPIC CODEC   the records of the standard input, a JSON array, go to partition 0
//   read TOPIC COUNT    so many records of partition 0 come out, as JSON
//   admin TOPIC         makes a topic of three partitions, finds it, and deletes it
//   group GROUP TOPIC   a member of a group: prints every value, commits, and leaves upon SIGTERM
// Bytes are in base64, as in jobs.py.
const { readFileSync } = require('fs');
const { Kafka, CompressionTypes, logLevel } = require('kafkajs');

const [server, op, ...args] = process.argv.slice(2);
const kafka = new Kafka({ clientId: 'kafkajs', brokers: [server], logLevel: logLevel.ERROR });
const bytes = (text) => (text === null ? null : Buffer.from(text, 'base64'));
const text = (data) => (data === null ? null : data.toString('base64'));

// kafkajs has a header's values as an object, with an array where a key comes several times (since 2.0).
const pack = (headers) => {
  const packed = {};
  for (const { key, value } of headers || []) packed[key] = key in packed ? [packed[key], bytes(value)].flat() : bytes(value);
  return packed;
};
const unpack = (headers) =>
  Object.entries(headers).flatMap(([key, values]) => [values].flat().map((value) => ({ key, value: text(value) })));

async function write(topic, codec) {
  const messages = JSON.parse(readFileSync(0)).map((r) => ({
    partition: 0,
    timestamp: String(r.timestamp),
    key: bytes(r.key),
    value: bytes(r.value),
    headers: pack(r.headers),
  }));
  const producer = kafka.producer({ allowAutoTopicCreation: false });
  await producer.connect();
  for (let at = 0; at < messages.length; at += 100) {
    await producer.send({
      topic,
      acks: -1,
      compression: { none: CompressionTypes.None, gzip: CompressionTypes.GZIP }[codec],
      messages: messages.slice(at, at + 100),
    });
  }
  await producer.disconnect();
}

async function read(topic, count) {
  const consumer = kafka.consumer({ groupId: `read-${topic}`, rebalanceTimeout: 6000 });
  const records = [];
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error));
    consumer.run({
      eachMessage: async ({ message: m }) => {
        records.push({
          offset: Number(m.offset),
          timestamp: Number(m.timestamp),
          key: text(m.key),
          value: text(m.value),
          headers: unpack(m.headers),
        });
        if (records.length === count) resolve();
      },
    });
  });
  await consumer.disconnect();
  console.log(JSON.stringify(records));
}

async function group(groupId, topic) {
  const consumer = kafka.consumer({
    groupId, sessionTimeout: 6000, rebalanceTimeout: 6000, heartbeatInterval: 200, maxWaitTimeInMs: 500,
  });
  process.once('SIGTERM', () => consumer.disconnect().then(() => process.exit(0)));
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await consumer.run({ eachMessage: async ({ message }) => console.log(message.value.toString()) });
}

async function admin(topic) {
  const client = kafka.admin();
  await client.connect();
  await client.createTopics({ topics: [{ topic, numPartitions: 3, replicationFactor: 1 }], waitForLeaders: true });
  const { topics } = await client.fetchTopicMetadata({ topics: [topic] });
  if (topics[0].partitions.length !== 3) throw new Error(`${topic}: ${JSON.stringify(topics)}`);
  await client.deleteTopics({ topics: [topic] });
  await client.disconnect();
}

const run = {
  write: () => write(...args),
  read: () => read(args[0], Number(args[1])),
  admin: () => admin(...args),
  group: () => group(...args),
}[op];
run().catch((e) => {
  console.error(e);
  process.exit(1);
});
