# SPDX-License-Identifier: Apache-2.0
"""Signed requests without a body to an S3 server, for tests that look into a bucket or make one."""
import datetime, hashlib, hmac, http.client, os, urllib.parse
from xml.etree import ElementTree

EMPTY = hashlib.sha256(b"").hexdigest()


def signed(endpoint, method, path, query=(), access=None, secret=None, region="us-east-1"):
    """(status, body). query: {name: value}; without access and secret those of the environment."""
    access, secret = access or os.environ["AWS_ACCESS_KEY_ID"], secret or os.environ["AWS_SECRET_ACCESS_KEY"]
    url = urllib.parse.urlsplit(endpoint)
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    scope, names = f"{now[:8]}/{region}/s3/aws4_request", "host;x-amz-content-sha256;x-amz-date"
    path = urllib.parse.quote(path, safe="/-_.~")
    query = "&".join(f"{urllib.parse.quote(k, safe='-_.~')}={urllib.parse.quote(v, safe='-_.~')}"
                     for k, v in sorted(dict(query).items()))
    canonical = f"{method}\n{path}\n{query}\nhost:{url.netloc}\nx-amz-content-sha256:{EMPTY}\nx-amz-date:{now}\n\n" \
                f"{names}\n{EMPTY}"
    key = ("AWS4" + secret).encode()
    text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    for part in (*scope.split("/"), text):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    c = kind(url.netloc, timeout=20)
    try:
        c.request(method, path + ("?" + query if query else ""), headers={
            "Host": url.netloc, "x-amz-date": now, "x-amz-content-sha256": EMPTY, "Authorization":
            f"AWS4-HMAC-SHA256 Credential={access}/{scope}, SignedHeaders={names}, Signature={key.hex()}"})
        r = c.getresponse()
        return r.status, r.read()
    finally:
        c.close()


def sizes(endpoint, bucket, prefix, access=None, secret=None):
    """{key: bytes} of the objects below a prefix."""
    found, query = {}, {"list-type": "2", "prefix": prefix}
    while True:
        status, body = signed(endpoint, "GET", f"/{bucket}", query, access, secret)
        if status != 200:
            raise OSError(f"listing {bucket}/{prefix}: {status} {body[:300]!r}")
        top = ElementTree.fromstring(body)
        name = top.tag[:-len("ListBucketResult")]   # with the namespace that this server uses
        for e in top.iter(f"{name}Contents"):
            found[e.find(f"{name}Key").text] = int(e.find(f"{name}Size").text)
        if top.findtext(f"{name}IsTruncated") != "true":
            return found
        query["continuation-token"] = top.findtext(f"{name}NextContinuationToken")
