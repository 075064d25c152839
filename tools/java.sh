#!/bin/sh
# Sees to Java 17 or newer: uses the one that is there, else installs one when it may, else says what to install.
set -eu

# The major version of the Java in use, or nothing.
major() {
    java=${JAVA_HOME:+$JAVA_HOME/bin/}java
    "$java" -version 2>&1 | sed -n 's/^[a-z]* version "\([0-9]*\).*/\1/p' | head -n 1
}

# "1.8.0" yields 1, which is too old as well.
enough() {
    found=$(major)
    [ -n "$found" ] && [ "$found" -ge 17 ]
}

if ! enough; then
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "Java 17 or newer is needed: install a JRE (Debian: apt-get install default-jre-headless) or set JAVA_HOME" >&2
        exit 1
    fi
    echo "Installing Java"
    apt-get update -qq >/dev/null
    package=openjdk-17-jre-headless
    apt-cache show "$package" >/dev/null 2>&1 || package=default-jre-headless # newer Debian has no 17
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" >/dev/null
    if ! enough; then
        echo "Java 17 or newer is needed: $package is installed, but java is still ${found:-missing}; check JAVA_HOME and PATH" >&2
        exit 1
    fi
fi
echo "Java $found"
