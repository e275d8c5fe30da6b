add_library(trainctl_warnings INTERFACE)
target_compile_options(trainctl_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
  -Wno-missing-field-initializers -Wnon-virtual-dtor -Wold-style-cast -Woverloaded-virtual $<$<BOOL:${TRAINCTL_WERROR}>:-Werror>)
# GCC 12 falsely reports overlaps inside std::string (GCC bug 105651).
target_compile_options(trainctl_warnings INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
# a*b+c must give the same bits on every CPU, so only kernels that request it use fused multiply-add.
target_compile_options(trainctl_warnings INTERFACE -ffp-contract=off)

# Compiles a target with -O1 instead of -O2, which takes three quarters of the time. It is for code that reads a configuration, starts
# processes or prints, and for tests: nothing there is computed per sample or per step.
function(trainctl_optimize_less target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release,RelWithDebInfo>:-O1>)
endfunction()

# trainctl_library(name [TORCH] [COLD] DEPS ... LIBS ... SOURCES ...)
# DEPS are folders of lib/ with a lower rank; LIBS are outside libraries, private to the sources. COLD: see trainctl_optimize_less.
function(trainctl_library name)
  cmake_parse_arguments(arg "TORCH;COLD" "" "DEPS;LIBS;SOURCES" ${ARGN})
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
  trainctl_use_unity(${target})
  if(arg_COLD)
    trainctl_optimize_less(${target})
  endif()
  # A plug-in links single functions of an archive (TrainctlPlugin.cmake), without the libraries that other functions need.
  if(name IN_LIST TRAINCTL_PLUGIN_LIBRARIES)
    target_compile_options(${target} PRIVATE -ffunction-sections -fdata-sections)
  endif()
  if(TRAINCTL_TIDY)
    trainctl_headers_alone(${target})
  endif()
endfunction()

# trainctl_backend(name SOURCES ...)
# Adds sources of a folder to a backend, an interface library that a program or the engine links: trainctl_gpu has the code that
# needs CUDA, trainctl_no_gpu has the same functions for a process that uses no GPU. Both refer to the libraries of lib/, which
# refer to them, so they are objects.
function(trainctl_backend name)
  cmake_parse_arguments(arg "" "" "SOURCES" ${ARGN})
  cmake_path(GET CMAKE_CURRENT_SOURCE_DIR FILENAME folder)
  set(objects trainctl_${folder}_${name})
  add_library(${objects} OBJECT ${arg_SOURCES})
  target_link_libraries(${objects} PRIVATE trainctl::${folder} trainctl_warnings)
  trainctl_use_torch_pch(${objects})
  trainctl_use_unity(${objects})
  if(NOT TARGET trainctl_${name})
    add_library(trainctl_${name} INTERFACE)
  endif()
  target_sources(trainctl_${name} INTERFACE $<TARGET_OBJECTS:${objects}>)
endfunction()

# Compiles the sources of a target in batches, which share the cost of their headers. The grouping runs at the end of the calling
# folder, when all sources are known. clang-tidy reads each source separately.
function(trainctl_use_unity target)
  if(TRAINCTL_UNITY AND NOT TRAINCTL_TIDY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
    cmake_language(EVAL CODE "cmake_language(DEFER CALL trainctl_group_by_folder ${target})")
  endif()
endfunction()

# A batch holds at most eight sources of one folder, so that a change rebuilds only its folder, and only the local names of one
# folder can clash.
function(trainctl_group_by_folder target)
  get_target_property(sources ${target} SOURCES)
  list(SORT sources)
  foreach(source IN LISTS sources)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" NORMALIZE)
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" OUTPUT_VARIABLE relative)
    cmake_path(GET relative PARENT_PATH folder)
    string(MAKE_C_IDENTIFIER "in_${folder}" folder)
    math(EXPR count_${folder} "${count_${folder}} + 1")
    math(EXPR batch "(${count_${folder}} - 1) / 8")
    set_source_files_properties("${source}" TARGET_DIRECTORY ${target} PROPERTIES UNITY_GROUP "${folder}_${batch}")
  endforeach()
endfunction()

# Checks that each header of the folder compiles alone, and when it is included twice: one source per header, which is never
# linked.
function(trainctl_headers_alone target)
  file(GLOB_RECURSE headers RELATIVE "${CMAKE_SOURCE_DIR}/lib" CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.hpp")
  set(sources "")
  foreach(header IN LISTS headers)
    set(source "${CMAKE_BINARY_DIR}/alone/${header}.cpp")
    file(CONFIGURE OUTPUT "${source}" CONTENT "#include \"${header}\"\n#include \"${header}\"\n" @ONLY)
    list(APPEND sources "${source}")
  endforeach()
  if(sources)
    add_library(${target}_headers OBJECT ${sources})
    set_target_properties(${target}_headers PROPERTIES CXX_CLANG_TIDY "")
    target_link_libraries(${target}_headers PRIVATE ${target} trainctl_warnings)
  endif()
endfunction()

# One target compiles libtorch's headers; every other torch source reuses the precompiled header.
function(trainctl_use_torch_pch target)
  if(TRAINCTL_PCH)
    if(NOT TARGET trainctl_torch_pch)
      add_library(trainctl_torch_pch OBJECT "${CMAKE_SOURCE_DIR}/cmake/torch_pch.cpp")
      target_link_libraries(trainctl_torch_pch PRIVATE trainctl_warnings trainctl_torch)
      target_precompile_headers(trainctl_torch_pch PRIVATE "${CMAKE_SOURCE_DIR}/cmake/torch_pch.hpp")
    endif()
    target_precompile_headers(${target} REUSE_FROM trainctl_torch_pch)
    # CMake would compile a program with -fPIE, and different flags silently disable the precompiled header.
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "EXECUTABLE")
      set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
      target_compile_options(${target} PRIVATE -fPIC)
    endif()
  endif()
endfunction()
