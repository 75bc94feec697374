"""Traces: a collector gets the spans of runs, calls and tools by OTLP; a caller's trace is continued; nothing said is in them.

The collector here decodes with OpenTelemetry's own protocol package; `OPENHANDS_OTELCOL` names a real Collector that is asked too.
"""

import os
import signal
import socket
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from harness import END, play, same, shell, within
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse

CONFIG = """
receivers: {{otlp: {{protocols: {{http: {{endpoint: "{address}"}}}}}}}}
exporters: {{debug: {{verbosity: detailed}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines: {{traces: {{receivers: [otlp], exporters: [debug]}}}}
"""
PARENT = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")


class Collector(ThreadingHTTPServer):
    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.batches, self.headers = [], []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def spans(self):
        return [span for batch in list(self.batches) for one in batch.resource_spans for scope in one.scope_spans for span in scope.spans]


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        same((self.path, self.headers["content-type"]), ("/v1/traces", "application/x-protobuf"), "request")
        self.server.headers.append(dict(self.headers))
        self.server.batches.append(ExportTraceServiceRequest.FromString(body))
        answer = ExportTraceServiceResponse().SerializeToString()
        self.send_response(200)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


def members(span):
    def plain(value):
        kind = value.WhichOneof("value")
        return [plain(v) for v in value.array_value.values] if kind == "array_value" else getattr(value, kind)

    return {pair.key: plain(pair.value) for pair in span.attributes}


def real(lab, program):
    """A Collector takes what the server sends and logs it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    config, log = lab.folder / "collector.yaml", lab.folder / "collector.log"
    config.write_text(CONFIG.format(address=address))
    with log.open("wb") as out:
        collector = subprocess.Popen([program, "--config", str(config)], stdout=out, stderr=out)
    try:
        within(20, "the Collector is ready", lambda: "Everything is ready" in log.read_text())
        server = lab.serve("real", OTEL_EXPORTER_OTLP_ENDPOINT=f"http://{address}", OTEL_BSP_SCHEDULE_DELAY="50")
        client = lab.client(server)
        conversation = client.converse([shell("true"), END])
        same(client.run(conversation, "Go"), "finished", "status")
        trace = str(conversation.id).replace("-", "")
        for line in (f"Trace ID       : {trace}", "Name           : invoke_agent", "Name           : chat scripted",
                     "Name           : execute_tool terminal", "gen_ai.usage.input_tokens: Int(", "service.name: Str(openhands-agent-server)"):
            within(10, line, lambda line=line: line in log.read_text())
    finally:
        collector.kill()
        collector.wait()


def run(lab):
    collector = Collector()
    server = lab.serve(OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer%20otel-token",
                       OTEL_SERVICE_NAME="sandbox", OTEL_BSP_SCHEDULE_DELAY="100")
    client = lab.client(server)
    os.environ["OPENHANDS_OBSERVABILITY_PARENT_SPAN_CONTEXT"] = f"00-{PARENT[0]}-{PARENT[1]}-01"
    os.environ["OPENHANDS_OBSERVABILITY_TAGS"] = "nightly,blue"
    os.environ["OPENHANDS_OBSERVABILITY_METADATA"] = '{"team": "blue"}'
    conversation = client.converse([shell("env; echo said-by-the-tool"), END])
    same(client.run(conversation, "said-by-the-user"), "finished", "status")
    spans = within(10, "the run's span", lambda: any(s.name == "invoke_agent" for s in collector.spans()) and collector.spans())
    by_name = {}
    for span in spans:
        by_name.setdefault(span.name, []).append(span)
    [root] = by_name["invoke_agent"]
    same((root.trace_id.hex(), root.parent_span_id.hex()), PARENT, "the caller's span")
    about = members(root)
    same((about["openhands.tags"], about["openhands.metadata.team"], about["openhands.execution_status"]),
         (["nightly", "blue"], "blue", "finished"), "the run")
    chats = [s for s in by_name["chat scripted"] if s.parent_span_id == root.span_id]
    tools = by_name["execute_tool terminal"]
    assert len(chats) >= 2 and len(tools) == 1, by_name.keys()
    for span in (*chats, *tools):
        same(span.trace_id, root.trace_id, "trace")
        assert root.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano <= root.end_time_unix_nano
        same(members(span)["gen_ai.conversation.id"], str(conversation.id), "conversation")
    chat = members(chats[0])
    same((chat["gen_ai.operation.name"], chat["gen_ai.provider.name"], chat["gen_ai.request.model"], chat["server.address"]),
         ("chat", "openai", "scripted", "127.0.0.1"), "the call")
    assert chat["gen_ai.usage.input_tokens"] > 0 and chat["gen_ai.response.id"] and chat["gen_ai.response.finish_reasons"]

    # nothing that was said, no key; and the tool saw no collector's token
    whole = str(collector.batches)
    for secret in ("said-by", "scenario-key", "otel-token"):
        assert secret not in whole, secret
    assert all(h["authorization"] == "Bearer otel-token" for h in collector.headers)
    assert "otel-token" not in client.outputs(conversation)[0]
    resource = {pair.key: pair.value.string_value for pair in collector.batches[0].resource_spans[0].resource.attributes}
    same(resource["service.name"], "sandbox", "service name")

    # what waits goes out when the server is asked to end
    for name in ("PARENT_SPAN_CONTEXT", "TAGS", "METADATA"):
        del os.environ[f"OPENHANDS_OBSERVABILITY_{name}"]
    slow = lab.serve("slow", OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, OTEL_BSP_SCHEDULE_DELAY="3600000")
    calm = lab.client(slow)
    last = calm.converse([END])
    count = len(collector.spans())
    same(calm.run(last, "Once"), "finished", "status")
    same(len(collector.spans()), count, "spans before the end")
    slow.stop(signal.SIGTERM)
    late = [s for s in collector.spans()[count:] if s.name == "invoke_agent"]
    # without a caller the conversation itself is the trace
    same([s.trace_id.hex() for s in late], [str(last.id).replace("-", "")], "trace of the last run")

    if os.environ.get("OPENHANDS_OTELCOL"):
        real(lab, os.environ["OPENHANDS_OTELCOL"])

    # a collector that is not there slows nothing and is told once
    gone = lab.serve("gone", OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:1", OTEL_BSP_SCHEDULE_DELAY="50")
    alone = lab.client(gone)
    same(alone.run(alone.converse([shell("true"), END]), "Go"), "finished", "status without a collector")
    within(10, "a warning", lambda: "the collector does not take spans" in gone.log.read_text())
    gone.stop(signal.SIGTERM)
    same(gone.log.read_text().count("the collector does not take spans"), 1, "warnings")


play(run)
