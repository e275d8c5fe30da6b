# CPack runs this between the installation into a folder and the packing of that folder.
execute_process(COMMAND bash "${CPACK_TRAINCTL_PACKAGING}/stage" "${CPACK_GENERATOR}" "${CPACK_TEMPORARY_INSTALL_DIRECTORY}"
  "${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}"
  COMMAND_ERROR_IS_FATAL ANY)
