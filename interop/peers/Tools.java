import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.kafka.common.utils.internals.Exit;

/**
 * Runs several of Apache Kafka's command line tools one after the other in one JVM, which costs a fraction of a JVM for
 * each. Each line of the standard input is a main class and its arguments, with tabs between. For each it prints a line
 * "exit CODE LENGTH" and then LENGTH bytes: what the tool printed, errors among it.
 */
public final class Tools {
    /** Unwinds a tool that ends the process. Some tools catch it and end again; only the first time counts. */
    private static final class Ended extends RuntimeException {
        Ended() {
            super(null, null, false, false);
        }
    }

    private static final ByteArrayOutputStream printed = new ByteArrayOutputStream();
    private static boolean ended;
    private static int code;
    private static int length;

    private static void end(int status, String message) {
        if (!ended) {
            if (message != null) {
                System.err.println(message);
            }
            System.err.flush();
            System.out.flush();
            ended = true;
            code = status;
            length = printed.size();
        }
        throw new Ended();
    }

    public static void main(String[] none) throws Exception {
        Exit.setExitProcedure(Tools::end);
        Exit.setHaltProcedure(Tools::end);
        PrintStream out = System.out;
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] command = line.split("\t", -1);
            printed.reset();
            ended = false;
            PrintStream capture = new PrintStream(printed, true, "UTF-8");
            System.setOut(capture);
            System.setErr(capture);
            run(command[0], Arrays.copyOfRange(command, 1, command.length));
            out.printf("exit %d %d%n", code, length);
            out.write(printed.toByteArray(), 0, length);
            out.flush();
        }
    }

    private static void run(String main, String[] args) throws Exception {
        try {
            Class.forName(main).getMethod("main", String[].class).invoke(null, (Object) args);
            end(0, null);
        } catch (InvocationTargetException e) {
            if (!(e.getCause() instanceof Ended)) {
                throw e;
            }
        } catch (Ended e) {
            // The tool has returned.
        }
    }
}
