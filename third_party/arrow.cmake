# Finds Arrow C++ and Parquet in the pyarrow wheel, for the data set `parquet`: the wheel's libraries have the C++11 ABI that
# trainctl uses. TRAINCTL_ARROW_ROOT is the 'pyarrow' folder of a site-packages; scripts/setup --arrow links one as .arrow.
# Without Arrow trainctl cannot read Parquet.
set(TRAINCTL_ARROW_ROOT "$ENV{TRAINCTL_ARROW_ROOT}" CACHE PATH "the 'pyarrow' folder of a site-packages, for Parquet")
if(NOT TRAINCTL_ARROW_ROOT AND EXISTS "${CMAKE_SOURCE_DIR}/.arrow/pyarrow")
  get_filename_component(TRAINCTL_ARROW_ROOT "${CMAKE_SOURCE_DIR}/.arrow/pyarrow" REALPATH)
endif()
if(TRAINCTL_ARROW_ROOT)
  file(GLOB _arrow "${TRAINCTL_ARROW_ROOT}/libarrow.so.*")
  file(GLOB _parquet "${TRAINCTL_ARROW_ROOT}/libparquet.so.*")
  if(NOT _arrow OR NOT _parquet OR NOT EXISTS "${TRAINCTL_ARROW_ROOT}/include/parquet/arrow/reader.h")
    message(FATAL_ERROR "TRAINCTL_ARROW_ROOT is '${TRAINCTL_ARROW_ROOT}', which is no 'pyarrow' folder with libarrow, libparquet and include/")
  endif()
  list(GET _arrow 0 _arrow)
  list(GET _parquet 0 _parquet)
  add_library(trainctl_arrow INTERFACE)
  target_include_directories(trainctl_arrow SYSTEM INTERFACE "${TRAINCTL_ARROW_ROOT}/include")
  target_link_libraries(trainctl_arrow INTERFACE "${_parquet}" "${_arrow}")
endif()
