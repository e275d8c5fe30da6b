# Uses a compiler cache and a faster linker if the machine has them.
find_program(TRAINCTL_CCACHE ccache)
if(TRAINCTL_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_SOURCE_DIR}/cmake/ccache.sh" "${CMAKE_SOURCE_DIR}" "${TRAINCTL_CCACHE}")
endif()

find_program(TRAINCTL_MOLD mold)
if(TRAINCTL_MOLD AND NOT TRAINCTL_SANITIZE)
  add_link_options(-fuse-ld=mold)
endif()

if(TRAINCTL_SANITIZE)
  add_compile_options(-Wno-maybe-uninitialized)  # GCC warns falsely in instrumented std::regex
endif()
if(TRAINCTL_SANITIZE STREQUAL "address")
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(TRAINCTL_SANITIZE STREQUAL "thread")
  add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
  add_link_options(-fsanitize=thread)
endif()

# GCC's <source_location> needs clang 15. The tidy preset leaves out the engine, whose sources take a minute each.
if(TRAINCTL_TIDY)
  find_program(TRAINCTL_CLANG_TIDY NAMES clang-tidy-19 clang-tidy-18 clang-tidy-17 clang-tidy-16 clang-tidy-15)
  if(NOT TRAINCTL_CLANG_TIDY)
    message(FATAL_ERROR "clang-tidy 15 or later was not found: apt-get install clang-tidy-16 (Ubuntu: clang-tidy-18)")
  endif()
  set(CMAKE_CXX_CLANG_TIDY "${TRAINCTL_CLANG_TIDY}" --quiet --extra-arg=-Wno-unknown-warning-option)
endif()

# libFuzzer needs the coverage of the libraries, not only of its entry function.
if(TRAINCTL_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
