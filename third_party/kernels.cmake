# Finds the CUDA compiler for the kernels of lib/device: nvcc of CUDA 13, which matches the wheel's runtime, on PATH, through
# CUDACXX or -DCMAKE_CUDA_COMPILER. It is optional: without it, libtorch's own operations feed a GPU, and no data set is kept on
# one. -DCMAKE_CUDA_ARCHITECTURES builds the kernels for other GPUs.
set(TRAINCTL_HAVE_KERNELS OFF)
if(TRAINCTL_HAVE_TORCH_CUDA)
  include(CheckLanguage)
  set(CMAKE_CUDA_STANDARD 17)  # CMake 3.25 does not know CUDA20 for this nvcc
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  set(CMAKE_CUDA_RUNTIME_LIBRARY None)  # libtorch loads the wheel's runtime
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 100-real 120)
  endif()
  include(${CMAKE_CURRENT_LIST_DIR}/../cmake/TrainctlArchitectures.cmake)
  trainctl_check_architectures(${CMAKE_CUDA_ARCHITECTURES})
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    if(CMAKE_CUDA_COMPILER_VERSION MATCHES "^13\\.")
      set(TRAINCTL_HAVE_KERNELS ON)
    else()
      message(STATUS "no kernels: ${CMAKE_CUDA_COMPILER} is of CUDA ${CMAKE_CUDA_COMPILER_VERSION}, and the torch wheel needs 13")
    endif()
  else()
    message(STATUS "no kernels: no CUDA compiler was found (nvcc of CUDA 13, on PATH or in CUDACXX)")
  endif()
endif()
