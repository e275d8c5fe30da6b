# `cmake --install` installs bin/trainctl, the engines in lib/, share/trainctl with configs and the JSON Schema, shell completions, and the
# licenses of the libraries that are linked. `scripts/package` makes an archive, a Debian package or a wheel of the same components.
# libtorch stays outside, and a run finds it through TRAINCTL_TORCH_ROOT. docs/how-to/packages.md describes what each package contains.
#
# The component `libraries` carries the small libraries next to the engine, so that the archive needs only glibc and libstdc++.
set(targets trainctl)
foreach(engine IN ITEMS trainctl_engine trainctl_engine_cuda)
  if(TARGET ${engine})
    list(APPEND targets ${engine})
  endif()
endforeach()
# The wheel is in site-packages/trainctl, next to site-packages/torch and site-packages/nvidia.
set_target_properties(${targets} PROPERTIES
  INSTALL_RPATH "$ORIGIN;$ORIGIN/../${CMAKE_INSTALL_LIBDIR};$ORIGIN/../../torch/lib;$ORIGIN/../../nvidia/cu13/lib")
if(NOT TRAINCTL_PORTABLE)
  set_property(TARGET ${targets} APPEND PROPERTY INSTALL_RPATH ${TRAINCTL_TORCH_RPATH})
  set(exclude_libraries EXCLUDE_FROM_ALL)
endif()
install(TARGETS ${targets} COMPONENT program RUNTIME_DEPENDENCY_SET small)
if(TARGET trainctl_sentencepiece)
  set_target_properties(trainctl_sentencepiece PROPERTIES INSTALL_RPATH "$ORIGIN")
  install(TARGETS trainctl_sentencepiece RUNTIME_DEPENDENCY_SET small LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT program)
endif()
install(RUNTIME_DEPENDENCY_SET small COMPONENT libraries ${exclude_libraries}
  PRE_EXCLUDE_REGEXES "^(libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\\+\\+|ld-linux.*|libtorch.*|libc10.*|libcud.*|libnccl.*)\\.so"
  POST_EXCLUDE_REGEXES "/(torch|nvidia)/")
if(TARGET trainctl_parquet)  # the wheel finds Arrow in site-packages/pyarrow
  set_target_properties(trainctl_parquet PROPERTIES INSTALL_RPATH "$ORIGIN;$ORIGIN/../../pyarrow")
  if(NOT TRAINCTL_PORTABLE)
    set_property(TARGET trainctl_parquet APPEND PROPERTY INSTALL_RPATH "${TRAINCTL_ARROW_ROOT}")
  endif()
  install(TARGETS trainctl_parquet LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT program)
endif()
if(TARGET trainctl_opencv)
  install(TARGETS trainctl_opencv LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT opencv)
endif()
if(TARGET trainctl_engine AND NOT TRAINCTL_PORTABLE)
  trainctl_install_plugin_kit()
endif()
install(DIRECTORY configs/ DESTINATION "${CMAKE_INSTALL_DATADIR}/trainctl/configs" COMPONENT program)
install(FILES LICENSE CHANGELOG.md DESTINATION "${CMAKE_INSTALL_DOCDIR}" COMPONENT documents)

# trainctl_install_output(COMPONENT FILE COMMAND...)
# Installs share/FILE, which COMMAND prints. It runs during the installation, because only then is the program complete.
function(trainctl_install_output component file)
  set(written "${CMAKE_BINARY_DIR}/installed/${file}")
  get_filename_component(folder "${written}" DIRECTORY)
  file(MAKE_DIRECTORY "${folder}")
  list(JOIN ARGN "\" \"" command)
  install(CODE "execute_process(COMMAND \"${command}\" OUTPUT_FILE \"${written}\" COMMAND_ERROR_IS_FATAL ANY)" COMPONENT ${component})
  get_filename_component(folder "${CMAKE_INSTALL_DATADIR}/${file}" DIRECTORY)
  install(FILES "${written}" DESTINATION "${folder}" COMPONENT ${component})
endfunction()
set(program "$<TARGET_FILE:trainctl>")
trainctl_install_output(completions bash-completion/completions/trainctl "${program}" completion bash)
trainctl_install_output(completions zsh/site-functions/_trainctl "${program}" completion zsh)
trainctl_install_output(completions fish/vendor_completions.d/trainctl.fish "${program}" completion fish)
trainctl_install_output(program trainctl/schema.json "${program}" schema)

# trainctl_install_folder(COMPONENT FOLDER COMMAND...)
# Installs the files that COMMAND, a script of packaging/, writes into the folder that is its last argument.
function(trainctl_install_folder component folder)
  set(written "${CMAKE_BINARY_DIR}/installed/${component}")
  list(JOIN ARGN "\" \"" command)
  install(CODE "file(REMOVE_RECURSE \"${written}\")
    execute_process(COMMAND \"${Python3_EXECUTABLE}\" -B \"${CMAKE_SOURCE_DIR}/packaging/${command}\" \"${written}\" COMMAND_ERROR_IS_FATAL ANY)"
    COMPONENT ${component} EXCLUDE_FROM_ALL)
  install(DIRECTORY "${written}/" DESTINATION "${folder}" COMPONENT ${component} EXCLUDE_FROM_ALL)
endfunction()
find_package(Python3 COMPONENTS Interpreter)
trainctl_install_folder(man "${CMAKE_INSTALL_MANDIR}/man1" man_pages.py "${program}")
trainctl_install_folder(licenses "${CMAKE_INSTALL_DATADIR}/doc/trainctl/licenses" licenses.py "${CMAKE_BINARY_DIR}")

# packaging/cpack.cmake chooses the components of the archive and of the Debian package.
set(CPACK_GENERATOR TGZ)
set(CPACK_PACKAGE_NAME trainctl)
set(CPACK_PACKAGE_VENDOR "the trainctl maintainers")
set(CPACK_PACKAGE_FILE_NAME "trainctl-${PROJECT_VERSION}-linux-${CMAKE_SYSTEM_PROCESSOR}")
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_PROJECT_CONFIG_FILE "${CMAKE_SOURCE_DIR}/packaging/cpack.cmake")
set(CPACK_PRE_BUILD_SCRIPTS "${CMAKE_SOURCE_DIR}/packaging/stage.cmake")
set(CPACK_TRAINCTL_PACKAGING "${CMAKE_SOURCE_DIR}/packaging")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${TRAINCTL_TORCH_RPATH} ${TRAINCTL_ARROW_ROOT})
include(CPack)
