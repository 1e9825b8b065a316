import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.requests.ResponseHeader;

/**
 * Says what requests and responses mean by Kafka's own message classes, which are generated from its schemas. Every line of the
 * standard input is a request's frame and its response's, in hexadecimal; for each come two lines, the request and the response
 * as JSON, with the size of records for them. A frame that is not wholly a message of its API and version, or that Kafka would write otherwise, is an error.
 */
public final class Schemas {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] frames = line.split(" ");
            ByteBuffer request = ByteBuffer.wrap(HexFormat.of().parseHex(frames[0]));
            ByteBuffer response = ByteBuffer.wrap(HexFormat.of().parseHex(frames[1]));
            RequestHeader header = RequestHeader.parse(request);
            ApiKeys api = header.apiKey();
            short version = header.apiVersion();
            System.out.println(read(api.messageType.newRequest(), request, version));
            int correlation = ResponseHeader.parse(response, api.responseHeaderVersion(version)).correlationId();
            if (correlation != header.correlationId()) {
                throw new IllegalStateException(api + " " + version + ": correlation id " + correlation);
            }
            System.out.println(read(api.messageType.newResponse(), response, version));
        }
    }

    private static JsonNode read(ApiMessage message, ByteBuffer frame, short version) throws Exception {
        String what = message.getClass().getSimpleName() + " " + version;
        ByteBuffer body = frame.slice();
        try {
            message.read(new ByteBufferAccessor(frame), version);
        } catch (RuntimeException e) {
            throw new IllegalStateException(what, e);
        }
        if (frame.hasRemaining()) {
            throw new IllegalStateException(what + ": " + frame.remaining() + " bytes are left");
        }
        ByteBuffer again = MessageUtil.toByteBufferAccessor(message, version).buffer();
        if (!again.equals(body)) {
            throw new IllegalStateException(what + ": Kafka writes\n" + hex(again) + "\nand here stands\n" + hex(body));
        }
        Class<?> converter = Class.forName(message.getClass().getName() + "JsonConverter");
        return (JsonNode) converter.getMethod("write", message.getClass(), short.class, boolean.class).invoke(null, message, version, false);
    }

    private static String hex(ByteBuffer b) {
        byte[] bytes = new byte[b.remaining()];
        b.duplicate().get(bytes);
        return HexFormat.of().formatHex(bytes);
    }
}
