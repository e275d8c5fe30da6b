# Checks a list in the form of CMAKE_CUDA_ARCHITECTURES. The program compares its entries with the GPU at run time
# (lib/device/kernels.cpp), so CMake's names for sets of GPUs, such as native and all-major, are not allowed.
function(trainctl_check_architectures)
  set(hint "write numbers from 80, such as 90 (machine code and PTX), 90-real (machine code) or 90-virtual (PTX), with a for one GPU \
(90a) or f for a family (100f), and a semicolon between entries")
  if(NOT ARGN)
    message(FATAL_ERROR "CMAKE_CUDA_ARCHITECTURES is empty: ${hint}")
  endif()
  foreach(entry IN LISTS ARGN)
    if(NOT entry MATCHES "^([1-9][0-9]+)[af]?(-real|-virtual)?$")
      message(FATAL_ERROR "CMAKE_CUDA_ARCHITECTURES: '${entry}' names no architecture: ${hint}")
    elseif(CMAKE_MATCH_1 LESS 80)
      message(FATAL_ERROR "CMAKE_CUDA_ARCHITECTURES: the kernels need an architecture from 80 on, got '${entry}': ${hint}")
    endif()
  endforeach()
endfunction()
