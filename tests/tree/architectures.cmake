# Checks trainctl_check_architectures. With -DENTRIES=LIST, only calls it with this list.
# usage: cmake [-DENTRIES=LIST] -P tests/tree/architectures.cmake
include("${CMAKE_CURRENT_LIST_DIR}/../../cmake/TrainctlArchitectures.cmake")
if(DEFINED ENTRIES)
  trainctl_check_architectures(${ENTRIES})
  return()
endif()

trainctl_check_architectures(80-real 90-real 100-real 120)
trainctl_check_architectures(90a 90a-real 100f 103f-virtual 90-virtual)
foreach(entries "" native all all-major OFF 90b 90-sass 90-real-virtual sm_90 "90-real 100" "90-real,100" 9.0 090 "90-real;native" 75 75-real)
  execute_process(COMMAND "${CMAKE_COMMAND}" "-DENTRIES=${entries}" -P "${CMAKE_CURRENT_LIST_FILE}"
    RESULT_VARIABLE status ERROR_VARIABLE message OUTPUT_QUIET)
  string(REGEX REPLACE "[ \n]+" " " message "${message}")
  if(status EQUAL 0)
    message(SEND_ERROR "the architectures '${entries}' were accepted")
  elseif(NOT message MATCHES "CMAKE_CUDA_ARCHITECTURES.*write numbers from 80")
    message(SEND_ERROR "the architectures '${entries}' have another message: ${message}")
  endif()
endforeach()
