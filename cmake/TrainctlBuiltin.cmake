# trainctl_builtin_experiments(SOURCE FILES...)
# Writes a source with the text of each FILE under its stem: the experiments that are built into the program.
function(trainctl_builtin_experiments source)
  set(rows "")
  foreach(file IN LISTS ARGN)
    set_property(DIRECTORY "${CMAKE_SOURCE_DIR}" APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
    get_filename_component(name "${file}" NAME_WE)
    file(READ "${file}" yaml)
    string(APPEND rows "      {\"${name}\", R\"yaml(${yaml})yaml\"},\n")
  endforeach()
  file(CONFIGURE OUTPUT "${source}" CONTENT [[// Written by CMake from configs/.
#include "spec/load.hpp"

namespace trainctl::spec {

const std::vector<BuiltinExperiment>& builtin_experiments() {
  static const std::vector<BuiltinExperiment> all{
@rows@  };
  return all;
}

}  // namespace trainctl::spec
]] @ONLY)
endfunction()
