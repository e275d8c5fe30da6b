# The CUDA compiler, for the kernels of lib/device: nvcc of CUDA 13, as the wheel's runtime is. Found on PATH, by CUDACXX or by
# -DCMAKE_CUDA_COMPILER. It is optional: without it a GPU is fed by libtorch's own operations, and no data set is kept on one.
set(TRAINCTL_HAVE_KERNELS OFF)
if(TRAINCTL_HAVE_TORCH_CUDA)
  include(CheckLanguage)
  set(CMAKE_CUDA_STANDARD 17)  # CMake 3.25 knows no CUDA20 for this nvcc
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  set(CMAKE_CUDA_RUNTIME_LIBRARY None)  # the wheel's, which libtorch has
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 100-real 120)
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
