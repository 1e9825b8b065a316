"""aiokafka, the client for asyncio, as an interop peer."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

import jobs


async def _write(server, job, records):
    producer = AIOKafkaProducer(
        bootstrap_servers=server,
        compression_type=None if job["codec"] == "none" else job["codec"],
        enable_idempotence=job["idempotent"],
        acks="all",
        linger_ms=50,
        max_batch_size=min(job["max_bytes"], 1_000_000),
        max_request_size=job["max_bytes"],
    )
    await producer.start()
    try:
        sent = [
            await producer.send(
                job["topic"], key=r.key, value=r.value, headers=r.headers, partition=0, timestamp_ms=r.timestamp
            )
            for r in records
        ]
        await asyncio.wait_for(asyncio.gather(*sent), jobs.LIMIT_SECONDS)
    finally:
        await producer.stop()


async def _read(server, job, deadline):
    consumer = AIOKafkaConsumer(
        bootstrap_servers=server,
        group_id=None,
        enable_auto_commit=False,
        auto_offset_reset="none",
        max_partition_fetch_bytes=job["max_bytes"],
        check_crcs=True,
    )
    await consumer.start()
    try:
        partition = TopicPartition(job["topic"], 0)
        consumer.assign([partition])
        consumer.seek(partition, 0)
        records = []
        while len(records) < job["count"]:
            deadline.check()
            for m in (await consumer.getmany(timeout_ms=1000)).get(partition, []):
                records.append(jobs.Record(m.offset, m.timestamp, m.key, m.value, m.headers))
        return records
    finally:
        await consumer.stop()


async def _admin(server, job):
    client = AIOKafkaAdminClient(bootstrap_servers=server)
    await client.start()
    try:
        await client.create_topics([NewTopic(job["topic"], num_partitions=3, replication_factor=1)])
        described = await client.describe_topics([job["topic"]])
        if len(described[0]["partitions"]) != 3:
            raise RuntimeError(f"{job['topic']}: {described}")
        await client.delete_topics([job["topic"]])
    finally:
        await client.close()


jobs.run(
    lambda *args: asyncio.run(_write(*args)),
    lambda *args: asyncio.run(_read(*args)),
    lambda *args: asyncio.run(_admin(*args)),
)
