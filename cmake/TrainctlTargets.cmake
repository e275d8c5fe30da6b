add_library(trainctl_warnings INTERFACE)
target_compile_options(trainctl_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
  -Wno-missing-field-initializers -Wnon-virtual-dtor -Wold-style-cast -Woverloaded-virtual $<$<BOOL:${TRAINCTL_WERROR}>:-Werror>)
# GCC 12 reports overlaps inside std::string that are not there (GCC bug 105651).
target_compile_options(trainctl_warnings INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
# a*b+c must give the same bits on every CPU: fused multiply-add only where a kernel asks for it.
target_compile_options(trainctl_warnings INTERFACE -ffp-contract=off)

# trainctl_library(name [TORCH] DEPS ... LIBS ... SOURCES ...)
# DEPS are folders of lib/ (lower rank), LIBS are outside libraries, private to the sources.
function(trainctl_library name)
  cmake_parse_arguments(arg "TORCH" "" "DEPS;LIBS;SOURCES" ${ARGN})
  set(target trainctl_${name})
  add_library(${target} STATIC ${arg_SOURCES})
  add_library(trainctl::${name} ALIAS ${target})
  target_include_directories(${target} PUBLIC "${CMAKE_SOURCE_DIR}/lib" "${CMAKE_BINARY_DIR}/generated")
  list(TRANSFORM arg_DEPS PREPEND trainctl::)
  target_link_libraries(${target} PUBLIC ${arg_DEPS} PRIVATE trainctl_warnings ${arg_LIBS})
  if(arg_TORCH)
    target_link_libraries(${target} PUBLIC trainctl_torch)
    trainctl_use_torch_pch(${target})
  endif()
endfunction()

# One target compiles libtorch's headers; every torch source of ours reuses the result.
function(trainctl_use_torch_pch target)
  if(TRAINCTL_PCH)
    if(NOT TARGET trainctl_torch_pch)
      add_library(trainctl_torch_pch OBJECT "${CMAKE_SOURCE_DIR}/cmake/torch_pch.cpp")
      target_link_libraries(trainctl_torch_pch PRIVATE trainctl_warnings trainctl_torch)
      target_precompile_headers(trainctl_torch_pch PRIVATE "${CMAKE_SOURCE_DIR}/cmake/torch_pch.hpp")
    endif()
    target_precompile_headers(${target} REUSE_FROM trainctl_torch_pch)
    # A program would be compiled with -fPIE, and differing flags silently bypass the precompiled header.
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "EXECUTABLE")
      set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
      target_compile_options(${target} PRIVATE -fPIC)
    endif()
  endif()
endfunction()
