#include "table.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "common/json_writer.h"

namespace onepass::tool {
namespace {

// The text between two such marks; a mark in it is written twice.
std::string quoted(const std::string& text, char mark) {
  std::string out(1, mark);
  for (const char c : text) out += std::string(c == mark ? 2 : 1, c);
  return out + mark;
}

struct Csv {
  std::string operator()(const std::string& text) const { return quoted(text, '"'); }
  std::string operator()(std::uint64_t n) const { return std::to_string(n); }
  std::string operator()(double n) const {
    char text[32];
    std::snprintf(text, sizeof text, "%.9g", n);
    return n >= 0.0 ? text : "";
  }
};

struct Sql {
  std::string operator()(const std::string& text) const { return quoted(text, '\''); }
  std::string operator()(std::uint64_t n) const { return Csv{}(n); }
  std::string operator()(double n) const { return n >= 0.0 ? Csv{}(n) : "NULL"; }
};

struct SqlType {
  const char* operator()(const std::string&) const { return "TEXT"; }
  const char* operator()(std::uint64_t) const { return "INTEGER"; }
  const char* operator()(double) const { return "REAL"; }
};

std::string joined(const TableRow& row, const char* separator, auto&& text_of) {
  std::string out;
  for (std::size_t i = 0; i < row.fields.size(); ++i) {
    out += (i == 0 ? "" : separator) + text_of(row.fields[i]);
  }
  return out;
}

std::string json(const TableRow& row) {
  JsonWriter json;
  json.begin_object();
  for (const Field& field : row.fields) {
    json.key(field.name);
    if (const double* n = std::get_if<double>(&field.value); n != nullptr && !(*n >= 0.0)) {
      json.null();
    } else {
      std::visit([&](const auto& value) { json.value(value); }, field.value);
    }
  }
  for (const auto& [name, values] : row.samples) {
    json.key(name).begin_array();
    for (const double x : values) json.value(x);
    json.end_array();
  }
  return json.end_object().text();
}

std::string name_of(const Field& field) { return field.name; }

}  // namespace

Status TableWriter::begin(const TableRow& like) const {
  if (format_ == "json") return put_("[");
  if (format_ == "none" || format_ == "jsonl") return {};
  if (format_ == "csv") return put_(joined(like, ",", name_of) + "\n");
  if (format_ == "sql") {
    return put_(std::string("CREATE TABLE IF NOT EXISTS ") + sql_table_ + " (\n  " +
                joined(like, ",\n  ",
                       [](const Field& field) {
                         return std::string(field.name) + " " + std::visit(SqlType{}, field.value);
                       }) +
                "\n);\n");
  }
  std::vector<std::string> titles;
  std::string line = "|";
  for (const Column& column : columns_) {
    titles.push_back(column.title);
    const auto width = static_cast<std::size_t>(std::abs(column.width));
    line += " " + (column.width < 0 ? std::string(width, '-') : std::string(width - 1, '-') + ":") +
            " |";
  }
  return put_(markdown(titles) + line + "\n");
}

Status TableWriter::row(const TableRow& row) {
  if (format_ == "none") return {};
  if (format_ == "jsonl") return put_(json(row) + "\n");
  if (format_ == "json") {
    return put_(std::string(std::exchange(first_, false) ? "\n  " : ",\n  ") + json(row));
  }
  if (format_ == "csv") {
    const auto text = [](const Field& field) { return std::visit(Csv{}, field.value); };
    return put_(joined(row, ",", text) + "\n");
  }
  if (format_ == "sql") {
    const auto text = [](const Field& field) { return std::visit(Sql{}, field.value); };
    return put_(std::string("INSERT INTO ") + sql_table_ + " (" + joined(row, ", ", name_of) +
                ") VALUES (" + joined(row, ", ", text) + ");\n");
  }
  return put_(markdown(row.cells));
}

Status TableWriter::end() const { return format_ == "json" ? put_("\n]\n") : Status{}; }

std::string TableWriter::markdown(const std::vector<std::string>& cells) const {
  std::string line = "|";
  for (std::size_t i = 0; i < cells.size(); ++i) {
    // The signs ± and µ are two bytes and one column.
    const auto used = static_cast<std::size_t>(
        std::count_if(cells[i].begin(), cells[i].end(), [](char c) { return (c & 0xc0) != 0x80; }));
    const auto width = static_cast<std::size_t>(std::abs(columns_[i].width));
    const std::string gap(width > used ? width - used : 0, ' ');
    line += columns_[i].width < 0 ? " " + cells[i] + gap + " |" : " " + gap + cells[i] + " |";
  }
  return line + "\n";
}

}  // namespace onepass::tool
