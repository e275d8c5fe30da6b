# Finds libtorch in the torch wheel and makes an imported target, because find_package(Torch) requires nvcc. TRAINCTL_TORCH_ROOT
# is the 'torch' folder of a site-packages that holds torch 2.11: -D, else the environment, else .deps, which scripts/setup links.
# Every configure searches again, so that build/ stays usable after torch has moved.
set(TRAINCTL_TORCH_ROOT "" CACHE PATH "the 'torch' folder of a site-packages with torch 2.11; empty: environment or .deps")
if(NOT TRAINCTL_TORCH_ROOT)
  set(TRAINCTL_TORCH_ROOT "$ENV{TRAINCTL_TORCH_ROOT}")
endif()
if(NOT TRAINCTL_TORCH_ROOT)
  set(TRAINCTL_TORCH_ROOT "${CMAKE_SOURCE_DIR}/.deps/torch")
endif()
if(NOT EXISTS "${TRAINCTL_TORCH_ROOT}/version.py")
  message(FATAL_ERROR "libtorch 2.11 was not found: run scripts/setup, or set TRAINCTL_TORCH_ROOT (now '${TRAINCTL_TORCH_ROOT}')")
endif()
file(STRINGS "${TRAINCTL_TORCH_ROOT}/version.py" _torch_version REGEX "^__version__")
if(NOT _torch_version MATCHES "2\\.11\\.")
  message(FATAL_ERROR "trainctl is built for torch 2.11; ${TRAINCTL_TORCH_ROOT} holds ${_torch_version}")
endif()
get_filename_component(_torch_lib "${TRAINCTL_TORCH_ROOT}/lib" REALPATH)
get_filename_component(_site "${TRAINCTL_TORCH_ROOT}" REALPATH)
get_filename_component(_site "${_site}/.." ABSOLUTE)

# The wheel ships its own fmt. The system's fmt has to come first, because spdlog does not compile with the wheel's.
find_path(TRAINCTL_FMT_DIR fmt/core.h REQUIRED)
file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/first")
file(CREATE_LINK "${TRAINCTL_FMT_DIR}/fmt" "${CMAKE_BINARY_DIR}/first/fmt" SYMBOLIC)

add_library(trainctl_torch INTERFACE)
target_include_directories(trainctl_torch SYSTEM INTERFACE "${CMAKE_BINARY_DIR}/first" "${_site}/nvidia/nccl/include"
  "${_site}/torch/include" "${_site}/torch/include/torch/csrc/api/include")
target_compile_definitions(trainctl_torch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
target_link_options(trainctl_torch INTERFACE -Wl,--allow-shlib-undefined)

# One link item, with libstdc++ first: libtorch exports an incomplete private copy of std::filesystem. What is compiled against
# trainctl_torch needs no CUDA library; trainctl_torch_cuda has those, for the code that runs on GPUs alone.
target_link_libraries(trainctl_torch INTERFACE
  "-Wl,--no-as-needed,-lstdc++,${_torch_lib}/libtorch_cpu.so,${_torch_lib}/libc10.so,--as-needed")
set(TRAINCTL_HAVE_TORCH_CUDA OFF)
if(NOT TRAINCTL_CUDA STREQUAL "OFF" AND EXISTS "${_torch_lib}/libtorch_cuda.so")
  set(TRAINCTL_HAVE_TORCH_CUDA ON)
  target_include_directories(trainctl_torch SYSTEM INTERFACE "${_site}/nvidia/cu13/include")
  target_compile_definitions(trainctl_torch INTERFACE USE_C10D_NCCL USE_CUDA)
  add_library(trainctl_torch_cuda INTERFACE)
  # One link item, because CMake would merge repeated --no-as-needed flags, and libtorch_cuda could be dropped.
  target_link_libraries(trainctl_torch_cuda INTERFACE "-Wl,--no-as-needed,${_torch_lib}/libtorch_cuda.so,${_torch_lib}/libc10_cuda.so,${_site}/nvidia/cu13/lib/libcudart.so.13,--as-needed")
elseif(TRAINCTL_CUDA STREQUAL "ON")
  message(FATAL_ERROR "TRAINCTL_CUDA=ON, but ${_torch_lib} has no libtorch_cuda.so: use the CUDA build of torch 2.11")
endif()
include(${CMAKE_CURRENT_LIST_DIR}/kernels.cmake)
set(TRAINCTL_TORCH_LIB "${_torch_lib}" CACHE INTERNAL "folder of libtorch_cpu.so")
set(TRAINCTL_TORCH_RPATH "${_torch_lib}")
if(TRAINCTL_HAVE_TORCH_CUDA)
  list(APPEND TRAINCTL_TORCH_RPATH "${_site}/nvidia/cu13/lib")
endif()
list(APPEND CMAKE_BUILD_RPATH ${TRAINCTL_TORCH_RPATH})
