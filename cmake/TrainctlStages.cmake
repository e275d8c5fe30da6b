# stages.def, data.def and loggers.def list the stages of the program. CMake reads them to add the sources and to write one header
# that includes every options struct, and stages/families.def, which lib/stages/builtin.cpp includes to declare and call the register
# functions. C++ includes data.def and loggers.def directly.

# trainctl_read_stages(def out) returns a list of kind/name/family triples such as "optimizer/adamw/adam". A line without a family
# has its name as the family.
function(trainctl_read_stages def out)
  set_property(DIRECTORY "${CMAKE_SOURCE_DIR}" APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${def}")
  file(STRINGS "${def}" lines REGEX "^STAGE\\(")
  set(triples "")
  foreach(line IN LISTS lines)
    if(NOT line MATCHES "^STAGE\\(([a-z_]+), ([a-z0-9_]+)(, ([a-z0-9_]+))?\\)$")
      message(FATAL_ERROR "${def}: expected 'STAGE(kind, name)' or 'STAGE(kind, name, family)', found '${line}'")
    endif()
    if(CMAKE_MATCH_3)
      list(APPEND triples "${CMAKE_MATCH_1}/${CMAKE_MATCH_2}/${CMAKE_MATCH_4}")
    else()
      list(APPEND triples "${CMAKE_MATCH_1}/${CMAKE_MATCH_2}/${CMAKE_MATCH_2}")
    endif()
  endforeach()
  set(${out} "${triples}" PARENT_SCOPE)
endfunction()

# trainctl_stage_files(triples out) returns the distinct kind/family of the triples: the paths of the sources without suffix.
function(trainctl_stage_files triples out)
  list(TRANSFORM triples REPLACE "^([^/]+)/[^/]+/([^/]+)$" "\\1/\\2")
  list(REMOVE_DUPLICATES triples)
  set(${out} "${triples}" PARENT_SCOPE)
endfunction()

# trainctl_stage_sources(def folder out) returns the sources of the listed stages, and fails if a source is missing.
function(trainctl_stage_sources def folder out)
  trainctl_read_stages("${def}" triples)
  trainctl_stage_files("${triples}" files)
  set(sources "")
  foreach(file IN LISTS files)
    if(NOT EXISTS "${folder}/${file}.cpp")
      message(FATAL_ERROR "${def} lists a stage of ${file}, but ${folder}/${file}.cpp is missing")
    endif()
    list(APPEND sources "${folder}/${file}.cpp")
  endforeach()
  set(${out} "${sources}" PARENT_SCOPE)
endfunction()

# trainctl_stage_families(def file) writes FAMILY(kind, family) for each family of the list.
function(trainctl_stage_families def file)
  trainctl_read_stages("${def}" triples)
  trainctl_stage_files("${triples}" families)
  list(TRANSFORM families REPLACE "^(.+)/(.+)$" "FAMILY(\\1, \\2)\n")
  list(JOIN families "" lines)
  cmake_path(GET def FILENAME name)
  file(CONFIGURE OUTPUT "${file}" CONTENT "// Written by CMake from ${name}.\n${lines}" @ONLY)
endfunction()

# trainctl_vocabulary(header defs...) writes `header`, which includes lib/spec/options/<kind>.hpp of every kind and defines
# TRAINCTL_FOR_EACH_STAGE(X) as X(kind, name, Type) ...; multi_step_lr becomes MultiStepLr.
function(trainctl_vocabulary header)
  set(includes "")
  set(rows "")
  foreach(def IN LISTS ARGN)
    trainctl_read_stages("${def}" triples)
    list(TRANSFORM triples REPLACE "/.*$" "" OUTPUT_VARIABLE kinds)
    list(REMOVE_DUPLICATES kinds)
    foreach(kind IN LISTS kinds)
      string(APPEND includes "#include \"spec/options/${kind}.hpp\"\n")
    endforeach()
    foreach(triple IN LISTS triples)
      string(REPLACE "/" ";" parts "${triple}")
      list(GET parts 0 kind)
      list(GET parts 1 name)
      string(REPLACE "_" ";" words "${name}")
      set(type "")
      foreach(word IN LISTS words)
        string(SUBSTRING "${word}" 0 1 first)
        string(TOUPPER "${first}" first)
        string(SUBSTRING "${word}" 1 -1 rest)
        string(APPEND type "${first}${rest}")
      endforeach()
      string(APPEND rows " \\\n  X(${kind}, ${name}, ${type})")
    endforeach()
  endforeach()
  file(CONFIGURE OUTPUT "${header}" CONTENT
    "// Written by CMake from stages.def, data.def and loggers.def.\n#pragma once\n\n${includes}\n#define TRAINCTL_FOR_EACH_STAGE(X)${rows}\n" @ONLY)
endfunction()
