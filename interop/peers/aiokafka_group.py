"""A member of a consumer group with aiokafka: prints every value, commits, and leaves upon SIGTERM."""

import asyncio
import signal
import sys

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import CommitFailedError, IllegalStateError


async def main(server, group, topic):
    leaving = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, leaving.set)
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=server,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=6000,
        heartbeat_interval_ms=200,
    )
    await consumer.start()
    while not leaving.is_set():
        polled = await consumer.getmany(timeout_ms=200)
        for messages in polled.values():
            for message in messages:
                print(message.value.decode(), flush=True)
        if polled:
            try:
                await consumer.commit()
            except (CommitFailedError, IllegalStateError):
                pass  # the group was divided anew meanwhile: whoever owns the records now gets them again
    await consumer.stop()


asyncio.run(main(*sys.argv[1:4]))
