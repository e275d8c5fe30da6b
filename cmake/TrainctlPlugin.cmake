# Plug-ins are built from the headers of plugin_headers.txt and a header with their digest. The digest changes with any of them,
# so the program refuses a plug-in that was built against other headers.
set(TRAINCTL_PLUGIN_LIBRARIES base config data spec stage)
set(TRAINCTL_PLUGIN_LIST "${CMAKE_SOURCE_DIR}/cmake/plugin_headers.txt")
file(STRINGS "${TRAINCTL_PLUGIN_LIST}" TRAINCTL_PLUGIN_HEADERS)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${TRAINCTL_PLUGIN_LIST}")
set(digests "")
foreach(header IN LISTS TRAINCTL_PLUGIN_HEADERS)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/lib/${header}")
  file(SHA256 "${CMAKE_SOURCE_DIR}/lib/${header}" digest)
  string(APPEND digests "${header} ${digest}\n")
endforeach()
string(SHA256 digest "${digests}")
string(SUBSTRING "${digest}" 0 12 TRAINCTL_PLUGIN_DIGEST)
configure_file("${CMAKE_CURRENT_LIST_DIR}/plugin_abi.hpp.in" "${CMAKE_BINARY_DIR}/generated/spec/plugin_abi.hpp" @ONLY)

# Installs the component `plugin`: headers, the archives that implement them, and the package for find_package(trainctl). A
# portable archive does not have it, because its libraries are linked differently.
function(trainctl_install_plugin_kit)
  set(include "${CMAKE_INSTALL_INCLUDEDIR}/trainctl")
  foreach(header IN LISTS TRAINCTL_PLUGIN_HEADERS)
    get_filename_component(folder "${header}" DIRECTORY)
    install(FILES "${CMAKE_SOURCE_DIR}/lib/${header}" DESTINATION "${include}/${folder}" COMPONENT plugin)
  endforeach()
  install(FILES "${CMAKE_BINARY_DIR}/generated/spec/plugin_abi.hpp" DESTINATION "${include}/spec" COMPONENT plugin)
  foreach(name IN LISTS TRAINCTL_PLUGIN_LIBRARIES)
    install(FILES "$<TARGET_FILE:trainctl_${name}>" DESTINATION "${CMAKE_INSTALL_LIBDIR}/trainctl" COMPONENT plugin)
  endforeach()
  include(CMakePackageConfigHelpers)
  set(package "${CMAKE_INSTALL_LIBDIR}/cmake/trainctl")
  configure_package_config_file("${CMAKE_SOURCE_DIR}/cmake/trainctlConfig.cmake.in" "${CMAKE_BINARY_DIR}/trainctlConfig.cmake"
    INSTALL_DESTINATION "${package}" PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
  write_basic_package_version_file("${CMAKE_BINARY_DIR}/trainctlConfigVersion.cmake" COMPATIBILITY ExactVersion)
  install(FILES "${CMAKE_BINARY_DIR}/trainctlConfig.cmake" "${CMAKE_BINARY_DIR}/trainctlConfigVersion.cmake"
    "${CMAKE_SOURCE_DIR}/cmake/plugin.map" DESTINATION "${package}" COMPONENT plugin)
endfunction()
