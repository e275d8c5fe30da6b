#!/bin/sh
# Runs a command of the compiler with the cache: ccache.sh SOURCE_DIR CCACHE COMPILER ARGUMENT...
CCACHE_BASEDIR=$1
shift
# A precompiled header contains times and defines: without this sloppiness every torch source would miss the cache. It also contains
# checksums of its headers with their comments, by which "#pragma once" knows them, so comments must count in the cache.
export CCACHE_BASEDIR CCACHE_NOHASHDIR=1 CCACHE_COMMENTS=1
export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
previous=
for argument; do
  # ccache takes a precompiled header that exists for an input of the one that replaces it, and then does not read the headers: after
  # a change of branch, the result would be that of other headers.
  case $previous:$argument in -o:*.gch) rm -f "$argument" ;; esac
  previous=$argument
done
exec "$@"
