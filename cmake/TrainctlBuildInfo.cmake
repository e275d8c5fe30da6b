# Each build runs this with cmake -P. It writes OUTPUT from INPUT with the commit in it, and touches OUTPUT only when it changes,
# so that the commit is right without a new configure and no other source is rebuilt.
set(TRAINCTL_GIT "")
execute_process(COMMAND git -C "${SOURCE_DIR}" describe --always --abbrev=12 --exclude=* --dirty
  OUTPUT_VARIABLE TRAINCTL_GIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  set(TRAINCTL_GIT "")
endif()
configure_file("${INPUT}" "${OUTPUT}" @ONLY)
