#!/usr/bin/env python3
"""build.py - builds a wheel with the daemon. Installing the wheel with pip provides the command tensord.

    deploy/dependencies.sh --wheel          # once: builds the libraries that are linked statically
    deploy/wheel/build.py --output dist     # prints the path of the wheel

The wheel contains the program, which loads only shared libraries of glibc; the Python client of api/clients/python; the
licences of all linked libraries; and a bill of materials. The wheel's tag names the oldest glibc with the symbols that the
program needs. The same sources on the same machine give the same bytes. The files have the time SOURCE_DATE_EPOCH, or the
time of the last commit.
"""
import argparse
import base64
import hashlib
import json
import os
import platform
import re
import stat
import subprocess
import sys
import time
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CLIENT = ROOT / "api" / "clients" / "python"
DOCUMENTS = Path("/usr/share/doc")  # Debian's folder of documents, with the file copyright of each package
COMMON_LICENCES = Path("/usr/share/common-licenses")
GLIBC = re.compile(r"(libc|libm|libdl|libpthread|librt)\.so\.\d|ld-linux[-a-z0-9_]*\.so\.\d")
EARLIEST = 315532800  # 1980, the earliest time in a zip file
MINIMAL = '''"""The daemon tensord. BINARY is the path of the program."""
from pathlib import Path

__version__ = "{version}"
BINARY = Path(__file__).parent / "bin" / "tensord"
'''


def fail(message):
    sys.exit(f"build.py: error: {message}")


def output_of(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd=ROOT, check=False, **options)
    if done.returncode:
        fail(f"{' '.join(map(str, command))}: exit status {done.returncode}\n{(done.stdout + done.stderr)[-2000:]}")
    return done.stdout


# ---------------------------------------------------------------- the program
def cache_folder():
    """Returns the folder of the libraries that deploy/dependencies.sh builds."""
    return Path(os.environ.get("TENSORD_CACHE") or
                Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tensord")


def build_program(folder):
    paths = [str(cache_folder() / "cjson" / "lib" / "pkgconfig"), os.environ.get("PKG_CONFIG_PATH", "")]
    environment = {**os.environ, "PKG_CONFIG_PATH": ":".join(filter(None, paths))}
    # CMake's cache of an earlier run might name libraries that deploy/dependencies.sh --wheel has replaced since then.
    output_of("cmake", "--fresh", "--preset", "wheel", "-B", folder, env=environment)
    output_of("cmake", "--build", folder, "--target", "tensord", "--parallel", os.cpu_count(), env=environment)
    return folder / "tensord"


def check_libraries(program):
    for name in re.findall(r"\(NEEDED\).*\[(.*)\]", output_of("readelf", "--dynamic", program)):
        if not GLIBC.fullmatch(name):
            fail(f"the program needs {name}; expected only libraries of glibc. Run deploy/dependencies.sh --wheel first")


def oldest_glibc(program):
    """Returns the newest version among the glibc symbols that the program uses: (2, 34) for GLIBC_2.34."""
    versions = re.findall(r"Name: GLIBC_(\S+)", output_of("readelf", "--version-info", "--wide", program))
    unknown = [version for version in versions if not re.fullmatch(r"\d+(\.\d+)+", version)]
    if unknown or not versions:
        fail(f"the program needs GLIBC_{', GLIBC_'.join(unknown)}; expected numbered versions of glibc")
    return max(tuple(map(int, version.split(".")[:2])) for version in versions)


# ---------------------------------------------------------------- contents and licences
def linked_archives(folder):
    """Returns the static libraries from which the linker took objects."""
    with open(folder / "link.map", encoding="utf-8") as file:
        text = file.read().partition("\nDiscarded input sections\n")[0]
    return sorted({os.path.realpath(path) for path in re.findall(r"(?m)^(/\S+\.a)\(", text)})


def bill_of_materials(program, version, folder, seconds):
    cached = re.search(r"(?m)^DRAGONBOX_INCLUDE:PATH=(.*)$", (folder / "CMakeCache.txt").read_text(encoding="utf-8"))
    return output_of(ROOT / "deploy" / "sbom.sh", program, version, "", cached[1], *linked_archives(folder),
                     env={**os.environ, "SOURCE_DATE_EPOCH": str(seconds)})


def linked_packages(bill):
    """Returns {name: licence} of the packages that are linked into the program, read from the bill of materials."""
    document = json.loads(bill)
    licences = {package["SPDXID"]: (package["name"], package["licenseDeclared"]) for package in document["packages"]}
    found = dict(licences[one["relatedSpdxElement"]] for one in document["relationships"] if one["relationshipType"] == "STATIC_LINK")
    for name, licence in found.items():
        if licence == "NOASSERTION":
            fail(f"the licence of {name} is unknown; add it to deploy/sbom.sh")
    return found


def copyright_of(package):
    for path in (ROOT / "deploy" / "debian" / "copyright" if package == "libmicrohttpd" else DOCUMENTS / package / "copyright",
                 cache_folder() / package.removeprefix("lib") / "copyright"):
        if path.is_file():
            return path.read_bytes()
    return fail(f"{DOCUMENTS / package / 'copyright'} is missing")


def licence_files(packages):
    """Returns {name: bytes}: the licences of tensord and of each package, and the licence texts that they refer to."""
    files = {f"{name}.txt": copyright_of(name) for name in packages}
    referred = {name for text in files.values() for name in re.findall(rb"/usr/share/common-licenses/([\w.+-]*\w)", text)}
    for name in sorted(map(bytes.decode, referred)):
        if (COMMON_LICENCES / name).is_file():
            files[f"common-licenses/{name}"] = (COMMON_LICENCES / name).read_bytes()
    files["LICENSE"] = (ROOT / "LICENSE").read_bytes()
    return files


def licence_expression(licences):
    return " AND ".join(f"({one})" if " OR " in one else one for one in sorted({"Apache-2.0", *licences}))


# ---------------------------------------------------------------- the Python package
def client_package(version):
    """Returns the files of the client and its project table. Without a client, the package contains only MINIMAL."""
    package = next((path for path in (CLIENT / "tensord", CLIENT / "src" / "tensord") if (path / "__init__.py").is_file()), None)
    if not package:
        return {"tensord/__init__.py": MINIMAL.format(version=version).encode()}, {}
    settings = tomllib.loads((CLIENT / "pyproject.toml").read_text(encoding="utf-8"))
    project, data = settings["project"], settings["tool"]["setuptools"]["package-data"]["tensord"]
    files = {f"tensord/{path.relative_to(package)}": path.read_bytes() for pattern in ["*.py", *data] for path in package.glob(pattern)}
    if project.get("version", version) != version:
        fail(f"{CLIENT}/pyproject.toml has version {project['version']}, but the program has version {version}")
    return files, project


def metadata(version, project, expression, licences):
    lines = ["Metadata-Version: 2.4", "Name: tensord", f"Version: {version}",
             "Summary: Tensor operations over HTTP: the daemon and its Python client",
             f"Requires-Python: {project.get('requires-python', '>=3.8')}",
             f"License-Expression: {expression}", *(f"License-File: {name}" for name in sorted(licences))]
    lines += [f"Requires-Dist: {one}" for one in project.get("dependencies", [])]
    for extra, requirements in sorted(project.get("optional-dependencies", {}).items()):
        lines.append(f"Provides-Extra: {extra}")
        for one in requirements:
            requirement, _, marker = map(str.strip, one.partition(";"))
            condition = f"({marker}) and " if marker else ""
            lines.append(f'Requires-Dist: {requirement}; {condition}extra == "{extra}"')
    lines += ["Description-Content-Type: text/markdown", "", (Path(__file__).parent / "README.md").read_text(encoding="utf-8")]
    return "\n".join(lines).encode()


def commands(project):
    scripts = {"tensord": "tensord_daemon:main", **project.get("scripts", {})}
    return "".join(["[console_scripts]\n", *(f"{name} = {function}\n" for name, function in scripts.items())]).encode()


# ---------------------------------------------------------------- the file
def file_seconds():
    seconds = os.environ.get("SOURCE_DATE_EPOCH")
    if not seconds:
        done = subprocess.run(["git", "log", "-1", "--format=%ct"], capture_output=True, text=True, cwd=ROOT, check=False)
        seconds = done.stdout.strip() or EARLIEST
    return max(int(seconds), EARLIEST)


def write_wheel(path, files, information, seconds):
    """Writes the files sorted by name, and the .dist-info folder last, as the wheel format recommends."""
    record = f"{information}/RECORD"
    names = sorted(files, key=lambda name: (name.startswith(information), name))
    rows = []
    for name in names:
        digest = base64.urlsafe_b64encode(hashlib.sha256(files[name]).digest()).rstrip(b"=").decode()
        rows.append(f"{name},sha256={digest},{len(files[name])}\n")
    content = {**files, record: "".join([*rows, f"{record},,\n"]).encode()}
    temporary = path.with_suffix(".new")
    with zipfile.ZipFile(temporary, "w") as wheel:
        for name in [*names, record]:
            entry = zipfile.ZipInfo(name, time.gmtime(seconds)[:6])
            entry.create_system, entry.compress_type = 3, zipfile.ZIP_DEFLATED
            entry.external_attr = (stat.S_IFREG | (0o755 if name == "tensord/bin/tensord" else 0o644)) << 16
            wheel.writestr(entry, content[name], compresslevel=9)
    temporary.replace(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="folder for the wheel (default: dist)")
    parser.add_argument("--build", type=Path, default=ROOT / "build-wheel", help="folder of the build (default: build-wheel)")
    options = parser.parse_args()
    folder, seconds = options.build.resolve(), file_seconds()

    program = build_program(folder)
    check_libraries(program)
    version = output_of(program, "--version").split()[1]
    tag = "py3-none-manylinux_{}_{}_{}".format(*oldest_glibc(program), platform.machine())
    bill = bill_of_materials(program, version, folder, seconds)
    packages = linked_packages(bill)
    licences = licence_files(packages)

    information = f"tensord-{version}.dist-info"
    files, project = client_package(version)
    files |= {
        "tensord/bin/tensord": program.read_bytes(),
        "tensord_daemon.py": (Path(__file__).parent / "tensord_daemon.py").read_bytes(),
        f"{information}/METADATA": metadata(version, project, licence_expression(packages.values()), licences),
        f"{information}/WHEEL": f"Wheel-Version: 1.0\nGenerator: tensord {version}\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(),
        f"{information}/entry_points.txt": commands(project),
        f"{information}/sboms/tensord.spdx.json": bill.encode(),
        **{f"{information}/licenses/{name}": text for name, text in licences.items()},
    }
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / f"tensord-{version}-{tag}.whl"
    write_wheel(path, files, information, seconds)
    print(path)


if __name__ == "__main__":
    main()
