// Rows of measurements as Markdown, CSV, JSON, JSON lines or SQL.
//
//   TableWriter table("csv", "speeds", {{"test", -8}, {"t/s", 10}}, put);
//   ONEPASS_TRY(table.begin(row));  // for its names and types
//   ONEPASS_TRY(table.row(row));
//   ONEPASS_TRY(table.end());
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "onepass/result.h"

namespace onepass::tool {

// A number that is not known is below 0: null in JSON and SQL, nothing in CSV.
struct Field {
  const char* name;
  std::variant<std::string, std::uint64_t, double> value;
};

struct TableRow {
  std::vector<Field> fields;                                              // of all but Markdown
  std::vector<std::pair<const char*, std::vector<double>>> samples = {};  // JSON has them too
  std::vector<std::string> cells = {};                                    // of Markdown
};

class TableWriter {
 public:
  // Of Markdown. A width below 0: to the left.
  struct Column {
    const char* title;
    int width;
  };
  using Sink = Status (*)(std::string_view);

  // Formats: md, csv, json, jsonl, sql and none, which writes nothing.
  TableWriter(std::string format, const char* sql_table, std::vector<Column> columns, Sink sink)
      : format_(std::move(format)),
        sql_table_(sql_table),
        columns_(std::move(columns)),
        put_(sink) {}

  Status begin(const TableRow& like) const;
  Status row(const TableRow& row);
  Status end() const;

 private:
  std::string markdown(const std::vector<std::string>& cells) const;

  std::string format_;
  const char* sql_table_;
  std::vector<Column> columns_;
  Sink put_;
  bool first_ = true;
};

}  // namespace onepass::tool
