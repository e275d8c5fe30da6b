# `cmake --install` and the target `package` install bin/trainctl, the engines in lib/, share/trainctl/configs and shell completions.
# With TRAINCTL_PORTABLE they also install the small libraries next to the engine, so that the archive needs only glibc and
# libstdc++. libtorch stays outside, and a run finds it through TRAINCTL_TORCH_ROOT. The wheel (python/CMakeLists.txt) has the
# components `program` and `completions`; auditwheel adds the small libraries.
option(TRAINCTL_PORTABLE "carry the small libraries in the archive" OFF)

set(targets trainctl)
foreach(engine IN ITEMS trainctl_engine trainctl_engine_cuda)
  if(TARGET ${engine})
    list(APPEND targets ${engine})
  endif()
endforeach()
# The wheel is in site-packages/trainctl, next to site-packages/torch and site-packages/nvidia.
set_target_properties(${targets} PROPERTIES
  INSTALL_RPATH "$ORIGIN;$ORIGIN/../${CMAKE_INSTALL_LIBDIR};$ORIGIN/../../torch/lib;$ORIGIN/../../nvidia/cu13/lib")
if(TRAINCTL_PORTABLE)
  install(TARGETS ${targets} COMPONENT program RUNTIME_DEPENDENCY_SET small)
  install(RUNTIME_DEPENDENCY_SET small COMPONENT libraries
    PRE_EXCLUDE_REGEXES "^(libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\\+\\+|ld-linux.*|libtorch.*|libc10.*|libcud.*|libnccl.*)\\.so"
    POST_EXCLUDE_REGEXES "/(torch|nvidia)/")
else()
  set_property(TARGET ${targets} APPEND PROPERTY INSTALL_RPATH ${TRAINCTL_TORCH_RPATH})
  install(TARGETS ${targets} COMPONENT program)
endif()
if(TARGET trainctl_parquet)  # the wheel finds Arrow in site-packages/pyarrow
  set_target_properties(trainctl_parquet PROPERTIES INSTALL_RPATH "$ORIGIN;$ORIGIN/../../pyarrow")
  if(NOT TRAINCTL_PORTABLE)
    set_property(TARGET trainctl_parquet APPEND PROPERTY INSTALL_RPATH "${TRAINCTL_ARROW_ROOT}")
  endif()
  install(TARGETS trainctl_parquet LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT program)
endif()
if(TARGET trainctl_opencv)
  install(TARGETS trainctl_opencv LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endif()
if(TARGET trainctl_engine AND NOT TRAINCTL_PORTABLE)
  trainctl_install_plugin_kit()
endif()
install(DIRECTORY configs/ DESTINATION "${CMAKE_INSTALL_DATADIR}/trainctl/configs" COMPONENT program)
install(FILES LICENSE CHANGELOG.md DESTINATION "${CMAKE_INSTALL_DOCDIR}")

# trainctl_install_completion(SHELL FILE)
# Writes the completion of a shell during the installation, because only then is the program complete.
function(trainctl_install_completion shell file)
  get_filename_component(folder "${CMAKE_INSTALL_DATADIR}/${file}" DIRECTORY)
  get_filename_component(name "${file}" NAME)
  set(written "${CMAKE_BINARY_DIR}/completions/${shell}/${name}")
  file(MAKE_DIRECTORY "${CMAKE_BINARY_DIR}/completions/${shell}")
  install(CODE "execute_process(COMMAND \"$<TARGET_FILE:trainctl>\" completion ${shell} OUTPUT_FILE \"${written}\" COMMAND_ERROR_IS_FATAL ANY)"
    COMPONENT completions)
  install(FILES "${written}" DESTINATION "${folder}" COMPONENT completions)
endfunction()
trainctl_install_completion(bash bash-completion/completions/trainctl)
trainctl_install_completion(zsh zsh/site-functions/_trainctl)
trainctl_install_completion(fish fish/vendor_completions.d/trainctl.fish)

set(CPACK_GENERATOR TGZ)
set(CPACK_PACKAGE_NAME trainctl)
set(CPACK_PACKAGE_FILE_NAME "trainctl-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR}")
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
include(CPack)
