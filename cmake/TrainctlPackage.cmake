# `cmake --install` and the target `package` install bin/trainctl, lib/libtrainctl_engine.so and share/trainctl/configs. With
# TRAINCTL_PORTABLE they also install the small libraries next to the engine, so that the archive needs only glibc and libstdc++.
# libtorch stays outside, and a run finds it through TRAINCTL_TORCH_ROOT.
option(TRAINCTL_PORTABLE "carry the small libraries in the archive" OFF)

set(targets trainctl)
if(TARGET trainctl_engine)
  list(APPEND targets trainctl_engine)
endif()
set_target_properties(${targets} PROPERTIES INSTALL_RPATH "$ORIGIN:$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
if(TRAINCTL_PORTABLE)
  install(TARGETS ${targets} RUNTIME_DEPENDENCY_SET small)
  install(RUNTIME_DEPENDENCY_SET small
    PRE_EXCLUDE_REGEXES "^(libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\\+\\+|ld-linux.*|libtorch.*|libc10.*|libcud.*|libnccl.*)\\.so"
    POST_EXCLUDE_REGEXES "/(torch|nvidia)/")
else()
  set_property(TARGET ${targets} APPEND PROPERTY INSTALL_RPATH ${TRAINCTL_TORCH_RPATH})
  install(TARGETS ${targets})
endif()
foreach(module IN ITEMS trainctl_opencv trainctl_parquet)
  if(TARGET ${module})
    install(TARGETS ${module} LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  endif()
endforeach()
if(TARGET trainctl_engine AND NOT TRAINCTL_PORTABLE)
  trainctl_install_plugin_kit()
endif()
install(DIRECTORY configs/ DESTINATION "${CMAKE_INSTALL_DATADIR}/trainctl/configs")
install(FILES LICENSE CHANGELOG.md DESTINATION "${CMAKE_INSTALL_DOCDIR}")

set(CPACK_GENERATOR TGZ)
set(CPACK_PACKAGE_NAME trainctl)
set(CPACK_PACKAGE_FILE_NAME "trainctl-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR}")
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
include(CPack)
