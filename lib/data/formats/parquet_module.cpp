#include "base/error.hpp"
#include "base/machine/machine.hpp"
#include "base/strings.hpp"
#include "data/formats/npy.hpp"
#include "data/formats/table.hpp"

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <parquet/arrow/reader.h>
#include <unistd.h>

namespace trainctl::data {
namespace {

/// Runs `body` and converts exceptions of Arrow to Error.
template <class Body>
auto guarded(const std::string& name, Body&& body) {
  try {
    return body();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(ErrorKind::data,
                fmt::format("{} is not a valid Parquet file: {}", name, printable(error.what())));
  }
}

void expect_sound(const arrow::Status& status, const std::string& name) {
  ENSURE(resource, !status.IsOutOfMemory(), "{} needs more than half of the available memory: {}",
         name, printable(status.message()));
  ENSURE(data, status.ok(), "{} is not a valid Parquet file: {}", name,
         printable(status.message()));
}

template <class T>
T checked(arrow::Result<T>&& result, const std::string& name) {
  expect_sound(result.status(), name);
  return *std::move(result);
}

template <class ArrayType>
double value_at(const arrow::Array& array, std::int64_t row) {
  return static_cast<double>(static_cast<const ArrayType&>(array).Value(row));
}

/// Returns the number, or nothing when the column type is not numeric.
std::optional<double> number_at(const arrow::Array& array, std::int64_t row) {
  switch (array.type_id()) {
    case arrow::Type::BOOL: return value_at<arrow::BooleanArray>(array, row);
    case arrow::Type::INT8: return value_at<arrow::Int8Array>(array, row);
    case arrow::Type::INT16: return value_at<arrow::Int16Array>(array, row);
    case arrow::Type::INT32: return value_at<arrow::Int32Array>(array, row);
    case arrow::Type::INT64: return value_at<arrow::Int64Array>(array, row);
    case arrow::Type::UINT8: return value_at<arrow::UInt8Array>(array, row);
    case arrow::Type::UINT16: return value_at<arrow::UInt16Array>(array, row);
    case arrow::Type::UINT32: return value_at<arrow::UInt32Array>(array, row);
    case arrow::Type::UINT64: return value_at<arrow::UInt64Array>(array, row);
    case arrow::Type::HALF_FLOAT:
      return half_to_float(static_cast<const arrow::HalfFloatArray&>(array).Value(row));
    case arrow::Type::FLOAT: return value_at<arrow::FloatArray>(array, row);
    case arrow::Type::DOUBLE: return value_at<arrow::DoubleArray>(array, row);
    default: return std::nullopt;
  }
}

bool holds_texts(const arrow::Array& array) {
  const arrow::Type::type type = array.type_id();
  return arrow::is_base_binary_like(type) || type == arrow::Type::DICTIONARY;
}

class ParquetRows final : public TableRows {
 public:
  ParquetRows(int fd, const char* name)
      : name_(printable(name)),
        pool_(arrow::default_memory_pool(), static_cast<std::int64_t>(available_memory() / 2)) {
    guarded(name_, [&] {
      auto file = checked(arrow::io::ReadableFile::Open(::dup(fd), &pool_), name_);
      // Arrow's read-ahead threads could outlive this object and its memory pool.
      parquet::ArrowReaderProperties in_this_thread;
      in_this_thread.set_pre_buffer(false);
      in_this_thread.set_use_threads(false);
      parquet::arrow::FileReaderBuilder builder;
      expect_sound(builder.Open(std::move(file)), name_);
      reader_ = checked(builder.memory_pool(&pool_)->properties(in_this_thread)->Build(), name_);
      std::shared_ptr<arrow::Schema> schema;
      expect_sound(reader_->GetSchema(&schema), name_);
      columns_ = schema->field_names();
    });
  }

  [[nodiscard]] const std::vector<std::string>& columns() const override { return columns_; }
  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] TablePlace where(std::size_t column) const override {
    return {first_ + row_, static_cast<std::int64_t>(column)};
  }
  [[nodiscard]] std::string describe(const TablePlace& place) const override {
    return fmt::format("{}: row {}, column '{}'", name_, place.row,
                       printable(columns_.at(static_cast<std::size_t>(place.column))));
  }

  bool next() override {
    ++row_;
    while (row_ >= rows_) {
      if (group_ == reader_->num_row_groups()) return false;
      guarded(name_, [&] { load_group(); });
    }
    return true;
  }

  [[nodiscard]] std::optional<double> number(std::size_t column) const override {
    const arrow::Array& array = *arrays_[column];
    if (array.IsNull(row_)) return std::nullopt;
    const std::optional<double> value = number_at(array, row_);
    ENSURE(data, value, "{}: the column must be numeric, got type {}{}", place(column),
           array.type()->ToString(),
           holds_texts(array) ? "\nhint: list it under 'categorical' if it contains names"
                              : "\nhint: omit it from 'features', or save it as numbers");
    if (std::isnan(*value)) return std::nullopt;  // pandas writes NaN for a missing value
    ENSURE(data, std::isfinite(*value), "{}: the value must be finite, got {}", place(column),
           *value);
    return value;
  }

  [[nodiscard]] std::optional<std::string> text(std::size_t column) const override {
    const arrow::Array& array = *arrays_[column];
    if (array.IsNull(row_)) return std::nullopt;
    const std::optional<double> value = number_at(array, row_);
    if (value && std::isnan(*value)) return std::nullopt;
    // Arrow prints the bits of a half-precision number.
    if (value && array.type_id() == arrow::Type::HALF_FLOAT) return fmt::format("{}", *value);
    auto scalar = checked(array.GetScalar(row_), name_);
    if (scalar->type->id() == arrow::Type::DICTIONARY) {
      scalar =
          checked(static_cast<const arrow::DictionaryScalar&>(*scalar).GetEncodedValue(), name_);
    }
    return scalar->ToString();
  }

 private:
  void load_group() {
    first_ += rows_;
    row_ = 0;
    auto table = checked(reader_->ReadRowGroup(group_++), name_);
    expect_sound(table->ValidateFull(), name_);
    table = checked(table->CombineChunks(&pool_), name_);
    rows_ = table->num_rows();
    arrays_.clear();
    for (const auto& column : table->columns()) {
      if (rows_ > 0) arrays_.push_back(column->chunk(0));
    }
  }

  std::string name_;
  arrow::CappedMemoryPool pool_;
  std::unique_ptr<parquet::arrow::FileReader> reader_;
  std::vector<std::string> columns_;
  std::vector<std::shared_ptr<arrow::Array>> arrays_;
  int group_ = 0;
  std::int64_t first_ = 0;
  std::int64_t rows_ = 0;
  std::int64_t row_ = -1;
};

}  // namespace

}  // namespace trainctl::data

extern "C" __attribute__((visibility("default"))) trainctl::data::TableRows*
trainctl_parquet_open_3(int fd, const char* name) {
  return new trainctl::data::ParquetRows(fd, name);
}

extern "C" __attribute__((visibility("default"))) const char* trainctl_parquet_version() {
  return ARROW_VERSION_STRING;
}
