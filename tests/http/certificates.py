"""Certificates for tests: an authority, a server's for localhost, and clients' that are and are not to be accepted."""
import functools, os, ssl, subprocess
from daemon import temporary_folder

EXTENSIONS = {"authority": "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign\n",
              "server": "subjectAltName=DNS:localhost,IP:127.0.0.1,IP:127.0.0.2,IP:::1\nextendedKeyUsage=serverAuth\n",
              "client": "extendedKeyUsage=clientAuth\n"}


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


class Folder:
    """of NAME.pem and NAME.key"""

    def __init__(self):
        self.path = temporary_folder()

    def file(self, name):
        return os.path.join(self.path, name)

    def key(self, name, rsa=False):
        openssl("genpkey", "-out", self.file(name + ".key"),
                *(("-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048") if rsa else ("-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")))
        os.chmod(self.file(name + ".key"), 0o600)

    def authority(self, name):
        self.key(name)
        with open(self.file("extensions"), "w", encoding="ascii") as file:
            file.write(EXTENSIONS["authority"])
        self.request(name)
        openssl("x509", "-req", "-in", self.file("request"), "-signkey", self.file(name + ".key"), "-days", "30", "-extfile", self.file("extensions"),
                "-out", self.file(name + ".pem"))
        return self

    def request(self, name):
        openssl("req", "-new", "-key", self.file(name + ".key"), "-subj", f"/CN={name}", "-out", self.file("request"))

    def sign(self, name, kind, authority="authority", days=30, rsa=False):
        """a key and a certificate that expires in so many days"""
        self.key(name, rsa)
        self.request(name)
        with open(self.file("extensions"), "w", encoding="ascii") as file:
            file.write(EXTENSIONS[kind])
        openssl("x509", "-req", "-in", self.file("request"), "-CA", self.file(authority + ".pem"), "-CAkey", self.file(authority + ".key"),
                "-CAcreateserial", "-days", str(days), "-extfile", self.file("extensions"), "-out", self.file(name + ".pem"))
        return self

    def options(self, name="server", client_ca=None):
        """of a daemon with this certificate"""
        return ["--tls-certificate", self.file(name + ".pem"), "--tls-key", self.file(name + ".key"),
                *(["--tls-client-ca", self.file(client_ca + ".pem")] if client_ca else [])]

    def context(self, client=None, authority="authority"):
        """of a client that accepts certificates of the authority, and has one itself"""
        context = ssl.create_default_context(cafile=self.file(authority + ".pem"))
        if client:
            context.load_cert_chain(self.file(client + ".pem"), self.file(client + ".key"))
        return context


@functools.lru_cache(maxsize=None)
def shared():
    """an authority and a server's certificate, made once"""
    return Folder().authority("authority").sign("server", "server")
