import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.function.UnaryOperator;
import org.opensearch.common.settings.Settings;
import org.opensearch.common.util.concurrent.ThreadContext;
import org.opensearch.core.rest.RestStatus;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.plugins.ActionPlugin;
import org.opensearch.plugins.Plugin;
import org.opensearch.rest.BytesRestResponse;
import org.opensearch.rest.RestHandler;
import org.opensearch.transport.Netty4Plugin;

/**
 * One node that is a cluster, out of the product's jars: its own class Node, with HTTP, and a login for one user.
 *
 * <p>SearchNode FOLDER USER PASSWORD NAME=VALUE..., the last being settings. For Elasticsearch the packages' names are changed.
 */
public final class SearchNode extends Node {
    private static String login;

    private SearchNode(Settings settings) {
        super(InternalSettingsPreparer.prepareEnvironment(settings, Map.of(), null, () -> "node"),
            List.of(Netty4Plugin.class, Login.class), true);
    }

    /** Refuses requests of others. The products' own login is not among their jars. */
    public static final class Login extends Plugin implements ActionPlugin {
        @Override
        public UnaryOperator<RestHandler> getRestHandlerWrapper(ThreadContext context) {
            return handler -> (request, channel, client) -> {
                if (login.equals(request.header("Authorization"))) {
                    handler.handleRequest(request, channel, client);
                } else {
                    channel.sendResponse(new BytesRestResponse(RestStatus.UNAUTHORIZED, "Unauthorized"));
                }
            };
        }
    }

    public static void main(String[] given) throws Exception {
        byte[] user = (given[1] + ":" + given[2]).getBytes(StandardCharsets.UTF_8);
        login = "Basic " + Base64.getEncoder().encodeToString(user);
        Settings.Builder settings = Settings.builder().put("path.home", given[0]);
        for (int at = 3; at < given.length; at++) {
            String[] setting = given[at].split("=", 2);
            settings.put(setting[0], setting[1]);
        }
        Node node = new SearchNode(settings.build());
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            try {
                node.close();
            } catch (IOException ended) {
                Runtime.getRuntime().halt(1);
            }
        }));
        node.start();
        Thread.currentThread().join();
    }
}
