# CPack reads this before it makes a package: which components it contains, and the fields of the Debian package.
set(components program completions man licenses documents)
if(CPACK_GENERATOR STREQUAL "DEB")
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_COMPRESSION_TYPE zstd)
  set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
  set(CPACK_DEBIAN_PACKAGE_MAINTAINER "the trainctl maintainers <trainctl@localhost>")
  set(CPACK_DEBIAN_PACKAGE_SECTION science)
  set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
  file(READ "${CPACK_TRAINCTL_PACKAGING}/debian/description" CPACK_DEBIAN_PACKAGE_DESCRIPTION)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)  # dpkg-shlibdeps computes Depends from the libraries
  # The program loads libcurl for remote data. Debian has no PyTorch 2.11, so pip installs it.
  set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "libcurl4, ca-certificates, python3-pip")
else()
  list(APPEND components libraries)
endif()

list(GET CPACK_INSTALL_CMAKE_PROJECTS 0 build)
set(CPACK_INSTALL_CMAKE_PROJECTS "")
foreach(component IN LISTS components)
  list(APPEND CPACK_INSTALL_CMAKE_PROJECTS "${build}" trainctl ${component} /)
endforeach()
