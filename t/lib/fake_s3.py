# SPDX-License-Identifier: Apache-2.0
"""An S3 server in memory that checks what is sent (signatures, payload hashes, checksums) and fails as it is told to.

    s3 = FakeS3()                               # on a free loopback port; s3.url("prefix"), s3.environment
    s3.fault(method="PUT", key="wal/", status=503, times=3)

A fault applies to requests whose method, key (a regular expression, searched) and query (a part of it) match, `times`
times (None: always), each with `chance`. What it does:
    status, code    answers that; effect=True: after the request was carried out
    delay           seconds before anything else, then goes on
    cut             closes the connection with a reset: "before" the effect, "after" it, or inside the answer's "body"
    truncate        sends half of the body and closes
    hang            seconds without an answer, then closes; effect=True: after the effect
    inside          an error document of that code inside a 200, without the effect
Switches: page (keys a page at most), pageless (all uploads at every question, in no order), ignore_condition, bare_etags, clock (seconds that its clock is ahead), token (the
session token that requests must carry), no_condition (501 to If-None-Match). The same over HTTP, unsigned:
PUT /-/faults with a list of faults, PUT /-/switches with an object, GET /-/keys."""
import base64, calendar, ctypes, hashlib, hmac, json, random, re, socket, socketserver, ssl, struct, threading, time
import urllib.parse
from email.utils import formatdate
from xml.etree import ElementTree
from xml.sax.saxutils import escape

ACCESS, SECRET = "AKIDFAKEFAKEFAKEFAKE", "fake/secret+of/forty+characters/0123456789"
NS = "http://s3.amazonaws.com/doc/2006-03-01/"
PART_MIN = 5 << 20

try:
    _isal = ctypes.CDLL("libisal.so.2")
    _isal.crc32_iscsi.restype = ctypes.c_uint32
    _isal.crc32_iscsi.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_uint32]
except OSError:
    _isal = None


def crc32c_text(data):
    """As x-amz-checksum-crc32c; None where nothing here computes it."""
    if _isal is None:
        return None
    crc = ~_isal.crc32_iscsi(data, len(data), 0xffffffff) & 0xffffffff
    return base64.b64encode(struct.pack(">I", crc)).decode()


class Refused(Exception):
    """An answer with an error document."""
    def __init__(self, status, code):
        super().__init__(code)
        self.status, self.code = status, code


class Cut(Exception):
    """The connection ends here."""


class Request:
    def __init__(self, method, target, headers, body):
        self.method, self.target, self.headers, self.body = method, target, headers, body
        self.path, _, self.raw_query = target.partition("?")
        pairs = [p.partition("=")[::2] for p in self.raw_query.split("&") if p]
        self.query = {urllib.parse.unquote(k): urllib.parse.unquote(v) for k, v in pairs}
        self.bucket, _, self.key = urllib.parse.unquote(self.path[1:]).partition("/")
        self.at = time.monotonic()
        self.connection = None


class FakeS3:
    def __init__(self, bucket="bucket", tls=None):
        self.bucket, self.objects, self.uploads = bucket, {}, {}
        self.tags = {}          # by identity of what is stored
        self.lock = threading.RLock()
        self.faults, self.log, self.injected = [], [], {}
        self.page, self.pageless, self.clock = 1000, False, 0.0
        self.ignore_condition = self.bare_etags = self.no_condition = False
        self.token = None
        self.n_ids = self.n_connections = 0
        self.random = random.Random(1)
        self.server = _Server(("127.0.0.1", 0), _Handler)
        self.server.s3, self.server.tls = self, None
        if tls:
            self.server.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.server.tls.load_cert_chain(*tls)
        self.port = self.server.server_address[1]
        self.endpoint = f"http{'s' if tls else ''}://{'localhost' if tls else '127.0.0.1'}:{self.port}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    environment = {"AWS_ACCESS_KEY_ID": ACCESS, "AWS_SECRET_ACCESS_KEY": SECRET}

    def url(self, prefix="", **parameters):
        parameters = {"endpoint": self.endpoint, **parameters}
        query = "&".join(f"{k}={v}" for k, v in parameters.items())
        return f"-2@s3://{self.bucket}{'/' + prefix if prefix else ''}?{query}"

    def fault(self, **fault):
        with self.lock:
            self.faults.append(dict({"method": "", "key": "", "query": "", "times": 1, "chance": 1.0}, **fault))

    def well(self):
        with self.lock:
            self.faults = []

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def requests(self, method=None, key=""):
        with self.lock:
            return [r for r in self.log if (method is None or r.method == method) and re.search(key, r.key)]

    def keys(self, prefix=""):
        with self.lock:
            return sorted(k for k in self.objects if k.startswith(prefix))

    # Faults

    def take_fault(self, request):
        with self.lock:
            for f in self.faults:
                if f["times"] == 0 or (f["method"] and f["method"] != request.method) or \
                        not re.search(f["key"], request.key) or f["query"] not in request.raw_query or \
                        self.random.random() >= f["chance"]:
                    continue
                if f["times"] is not None:
                    f["times"] -= 1
                name = next(k for k in ("cut", "truncate", "hang", "inside", "status", "delay") if k in f)
                name = f"{name} {f[name]}" if name in ("cut", "status") else name
                self.injected[name] = self.injected.get(name, 0) + 1
                return f
        return {}

    # Signatures

    def check_signature(self, r):
        m = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/s3/aws4_request, ?"
                         r"SignedHeaders=([a-z0-9;-]+), ?Signature=([0-9a-f]{64})", r.headers.get("authorization", ""))
        if not m:
            raise Refused(403, "AccessDenied")
        access, day, region, names, signature = m.groups()
        names = names.split(";")
        if access != ACCESS:
            raise Refused(403, "InvalidAccessKeyId")
        unsigned = [h for h in r.headers if (h.startswith("x-amz-") or h in ("host", "content-md5")) and h not in names]
        if unsigned or names != sorted(names) or "host" not in names:
            raise Refused(403, "AccessDenied")
        date = r.headers.get("x-amz-date", "")
        when = calendar.timegm(time.strptime(date, "%Y%m%dT%H%M%SZ"))
        if abs(when - (time.time() + self.clock)) > 900:
            raise Refused(403, "RequestTimeTooSkewed")
        if self.token is not None and r.headers.get("x-amz-security-token") != self.token:
            raise Refused(400, "ExpiredToken")
        payload = r.headers["x-amz-content-sha256"]
        query = "&".join(sorted(f"{urllib.parse.quote(k, safe='-_.~')}={urllib.parse.quote(v, safe='-_.~')}"
                                for k, v in r.query.items()))
        canonical = "\n".join([r.method, urllib.parse.quote(urllib.parse.unquote(r.path), safe="/-_.~"), query,
                               *(f"{n}:{' '.join(r.headers[n].split())}" for n in names), "", ";".join(names), payload])
        scope = f"{day}/{region}/s3/aws4_request"
        text = "\n".join(["AWS4-HMAC-SHA256", date, scope, hashlib.sha256(canonical.encode()).hexdigest()])
        key = ("AWS4" + SECRET).encode()
        for part in (day, region, "s3", "aws4_request", text):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        if key.hex() != signature or not date.startswith(day):
            raise Refused(403, "SignatureDoesNotMatch")
        if payload == "UNSIGNED-PAYLOAD":
            if self.server.tls is None:
                raise Refused(403, "AccessDenied")
        elif payload != hashlib.sha256(r.body).hexdigest():
            raise Refused(400, "XAmzContentSHA256Mismatch")

    def check_digests(self, r):
        sent, computed = r.headers.get("x-amz-checksum-crc32c"), crc32c_text(r.body)
        if sent is not None and computed is not None and sent != computed:
            raise Refused(400, "BadDigest")
        md5 = r.headers.get("content-md5")
        if md5 is not None and md5 != base64.b64encode(hashlib.md5(r.body).digest()).decode():
            raise Refused(400, "BadDigest")

    # What it does: each returns (status, headers, body)

    def act(self, r):
        if r.bucket != self.bucket:
            raise Refused(404, "NoSuchBucket")
        self.check_digests(r)
        with self.lock:
            if r.key == "":
                return self.act_bucket(r)
            if "uploadId" in r.query or "uploads" in r.query:
                return self.act_upload(r)
            return getattr(self, f"act_{r.method.lower()}")(r)

    def etag(self, data):
        known = self.tags.get(id(data))
        if known is None or known[0] is not data:       # a GET of a range must not read all of a large object
            known = self.tags[id(data)] = (data, hashlib.md5(data).hexdigest())
        tag = known[1]
        return tag if self.bare_etags else f'"{tag}"'

    def act_put(self, r):
        if "if-none-match" in r.headers:
            if self.no_condition or r.headers["if-none-match"] != "*":
                raise Refused(501, "NotImplemented")
            if r.key in self.objects and not self.ignore_condition:
                raise Refused(412, "PreconditionFailed")
        self.objects[r.key] = r.body
        return 200, {"ETag": self.etag(r.body)}, b""

    def act_get(self, r):
        if r.key not in self.objects:
            raise Refused(404, "NoSuchKey")
        data = self.objects[r.key]
        headers = {"ETag": self.etag(data)}
        m = re.fullmatch(r"bytes=(\d*)-(\d*)", r.headers.get("range", ""))
        if not m:
            return 200, headers, data
        if m[1] == "":
            first, last = max(0, len(data) - int(m[2])), len(data) - 1
        else:
            first, last = int(m[1]), min(int(m[2] or len(data)), len(data) - 1)
        if first >= len(data):
            raise Refused(416, "InvalidRange")
        headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
        return 206, headers, data[first:last + 1]

    def act_delete(self, r):
        self.objects.pop(r.key, None)
        return 204, {}, b""

    def act_bucket(self, r):
        if r.method == "POST" and "delete" in r.query:
            if "content-md5" not in r.headers:
                raise Refused(400, "InvalidRequest")
            keys = [e.text for e in ElementTree.fromstring(r.body).iter(f"{{{NS}}}Key")]
            if len(keys) > 1000:
                raise Refused(400, "MalformedXML")
            for key in keys:
                self.objects.pop(key, None)
            return self.document("DeleteResult", "")
        if r.method == "GET" and r.query.get("list-type") == "2":
            return self.list_objects(r.query)
        if r.method == "GET" and "uploads" in r.query:
            return self.list_uploads(r.query)
        raise Refused(501, "NotImplemented")

    def document(self, root, inner):
        return 200, {"Content-Type": "application/xml"}, \
            f'<?xml version="1.0" encoding="UTF-8"?>\n<{root} xmlns="{NS}">{inner}</{root}>'.encode()

    def list_objects(self, q):
        after = base64.b64decode(q["continuation-token"]).decode() if "continuation-token" in q else \
            q.get("start-after", "")
        keys = [k for k in sorted(self.objects) if k.startswith(q.get("prefix", "")) and k > after]
        n = min(int(q.get("max-keys", 1000)), self.page, 1000)
        page, more = keys[:n], len(keys) > n
        inner = "".join(f"<Contents><Key>{escape(k)}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
                        f"<ETag>{escape(self.etag(self.objects[k]))}</ETag><Size>{len(self.objects[k])}</Size>"
                        f"<Owner><ID>me</ID><DisplayName>me</DisplayName></Owner></Contents>" for k in page)
        token = f"<NextContinuationToken>{base64.b64encode(page[-1].encode()).decode()}</NextContinuationToken>" \
            if more else ""
        return self.document("ListBucketResult", f"<Name>{self.bucket}</Name><KeyCount>{len(page)}</KeyCount>"
                             f"<IsTruncated>{str(more).lower()}</IsTruncated>{token}{inner}")

    def list_uploads(self, q):
        marker = (q.get("key-marker", ""), q.get("upload-id-marker", "\x7f" if "key-marker" in q else ""))
        found = sorted((u["key"], i) for i, u in self.uploads.items() if u["key"].startswith(q.get("prefix", "")))
        if self.pageless:
            return self.document("ListMultipartUploadsResult", "<IsTruncated>false</IsTruncated>" + "".join(
                f"<Upload><Key>{escape(k)}</Key><UploadId>{i}</UploadId></Upload>" for k, i in reversed(found)))
        found = [f for f in found if f > marker]
        n = min(int(q.get("max-uploads", 1000)), self.page, 1000)
        page, more = found[:n], len(found) > n
        inner = "".join(f"<Upload><Key>{escape(k)}</Key><UploadId>{i}</UploadId><Initiator><ID>me</ID></Initiator>"
                        f"</Upload>" for k, i in page)
        if more:
            inner += f"<NextKeyMarker>{escape(page[-1][0])}</NextKeyMarker>" \
                     f"<NextUploadIdMarker>{page[-1][1]}</NextUploadIdMarker>"
        return self.document("ListMultipartUploadsResult", f"<IsTruncated>{str(more).lower()}</IsTruncated>{inner}")

    def act_upload(self, r):
        if r.method == "POST" and "uploads" in r.query:
            self.n_ids += 1
            upload = f"{self.n_ids:08d}-upload"
            self.uploads[upload] = {"key": r.key, "parts": {}}
            return self.document("InitiateMultipartUploadResult", f"<Bucket>{self.bucket}</Bucket>"
                                 f"<Key>{escape(r.key)}</Key><UploadId>{upload}</UploadId>")
        upload = self.uploads.get(r.query.get("uploadId"))
        if upload is None or upload["key"] != r.key:
            raise Refused(404, "NoSuchUpload")
        if r.method == "PUT":
            upload["parts"][int(r.query["partNumber"])] = r.body
            return 200, {"ETag": self.etag(r.body)}, b""
        if r.method == "DELETE":
            del self.uploads[r.query["uploadId"]]
            return 204, {}, b""
        return self.complete(r, upload)

    def complete(self, r, upload):
        data = []
        for i, part in enumerate(ElementTree.fromstring(r.body).iter(f"{{{NS}}}Part"), 1):
            number, tag = int(part.find(f"{{{NS}}}PartNumber").text), part.find(f"{{{NS}}}ETag").text
            body = upload["parts"].get(number)
            if number != i or body is None or hashlib.md5(body).hexdigest() != tag.strip('"') or \
                    part.find(f"{{{NS}}}ChecksumCRC32C").text != (crc32c_text(body) or
                                                                 part.find(f"{{{NS}}}ChecksumCRC32C").text):
                raise Refused(400, "InvalidPart")
            data.append(body)
        if not data or any(len(d) < PART_MIN for d in data[:-1]):
            raise Refused(400, "EntityTooSmall")
        self.objects[r.key] = b"".join(data)
        del self.uploads[r.query["uploadId"]]
        return self.document("CompleteMultipartUploadResult", f"<Key>{escape(r.key)}</Key>")

    def control(self, r):
        if r.method == "PUT" and r.key == "faults":
            self.well()
            for f in json.loads(r.body):
                self.fault(**f)
        elif r.method == "PUT" and r.key == "switches":
            for name, value in json.loads(r.body).items():
                assert name in ("page", "pageless", "clock", "ignore_condition", "bare_etags", "no_condition", "token"), name
                setattr(self, name, value)
        elif r.method == "GET" and r.key == "keys":
            return 200, {}, json.dumps(self.keys()).encode()
        else:
            return 404, {}, b""
        return 200, {}, b""


def _error(status, code):
    text = f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>by order</Message>' \
           f"<RequestId>1</RequestId></Error>"
    return status, {"Content-Type": "application/xml"}, text.encode()


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address, daemon_threads, request_queue_size = True, True, 128

    def get_request(self):
        connection, address = super().get_request()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection, address

    def handle_error(self, request, client_address):
        pass    # clients that are killed


class _Handler(socketserver.StreamRequestHandler):
    rbufsize, wbufsize = 1 << 16, 0

    def setup(self):
        if self.server.tls:
            self.request = self.server.tls.wrap_socket(self.request, server_side=True)
        super().setup()

    def handle(self):
        s3 = self.server.s3
        with s3.lock:
            s3.n_connections += 1
            number = s3.n_connections
        try:
            while (r := self.read()) is not None:
                r.connection = number
                self.serve(s3, r)
        except (Cut, OSError, ValueError):
            pass

    def read(self):
        line = self.rfile.readline(65536)
        if not line:
            return None
        method, target, _ = line.decode("latin-1").split(" ", 2)
        headers = {}
        while (line := self.rfile.readline(65536)) not in (b"\r\n", b""):
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        n = int(headers.get("content-length", 0))
        body = self.rfile.read(n)
        if len(body) < n:
            raise Cut
        return Request(method, target, headers, body)

    def reset(self):
        self.request.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.request.close()
        raise Cut

    def serve(self, s3, r):
        if r.bucket == "-":
            self.answer(s3, r, *s3.control(r))
            return
        with s3.lock:
            s3.log.append(r)
            del s3.log[:-20000]
        f = s3.take_fault(r)
        time.sleep(f.get("delay", 0))
        if f.get("cut") == "before":
            self.reset()
        if "hang" in f and not f.get("effect"):
            time.sleep(f["hang"])
            raise Cut
        if "status" in f and not f.get("effect"):
            self.answer(s3, r, *_error(f["status"], f.get("code", "ByOrder")))
            return
        if "inside" in f:
            self.answer(s3, r, 200, {}, _error(200, f["inside"])[2])
            return
        try:
            s3.check_signature(r)
            answer = s3.act(r)
        except Refused as refused:
            answer = _error(refused.status, refused.code)
        if f.get("cut") == "after":
            self.reset()
        if "hang" in f:
            time.sleep(f["hang"])
            raise Cut
        if "status" in f:
            answer = _error(f["status"], f.get("code", "ByOrder"))
        self.answer(s3, r, *answer, half=f.get("truncate") or f.get("cut") == "body", reset="cut" in f)

    def answer(self, s3, r, status, headers, body, half=False, reset=False):
        head = [f"HTTP/1.1 {status} {'OK' if status < 300 else 'Refused'}",
                f"Date: {formatdate(time.time() + s3.clock, usegmt=True)}"]
        if status != 204:
            head.append(f"Content-Length: {len(body)}")
        head += [f"{k}: {v}" for k, v in headers.items()]
        text = ("\r\n".join(head) + "\r\n\r\n").encode("latin-1")
        self.wfile.write(text + (body[:len(body) // 2] if half else body))
        if half and reset:
            self.reset()
        if half:
            raise Cut
