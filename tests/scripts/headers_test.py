import unittest

import script_test  # finds scripts/

import headers

TEXT = r"""
// using Old = int;
#pragma once
namespace onepass {
class Device;
enum class Mode : std::uint8_t { fast, slow };
struct Options {
  bool serial = false;  // comment
  Mode mode = Mode::fast;
  std::uint64_t a_ns = 0, b_ns{1};
  std::function<void(std::string_view category, int)> log = nullptr;
  const char* label = "x;{";
};
class Graph {
 public:
  Graph();
  explicit Graph(Device device, int n = 3) : device_(std::move(device)), n_(n) {}
  ~Graph();
  Graph& operator=(Graph&&) noexcept;
  Graph(const Graph&) = delete;
  static Result<Graph> from(const std::vector<std::pair<int, Mode>>& list, Mode mode = {});
  std::size_t len() const noexcept { return list_.size(); }
  template <class T>
  T* at(std::size_t i) const noexcept {
    if (i > 3) { return nullptr; }
    return ptr<T>(i);
  }
  std::vector<int> nodes() &&;

 private:
  void hidden();
  int n_ = 0;
};
namespace compat {
using onepass::Graph;
using Size = std::array<std::uint32_t, 3>;
inline std::uint64_t count() noexcept { return 1; }
}  // namespace compat
}  // namespace onepass
"""


class Headers(unittest.TestCase):
    def setUp(self):
        self.found = {}
        for entity in headers.scan(TEXT):
            self.found.setdefault(entity.name, []).append(entity)

    def one(self, name):
        self.assertEqual(len(self.found.get(name, [])), 1, name)
        return self.found[name][0]

    def test_names_are_those_a_user_sees(self):
        self.assertEqual(
            sorted(self.found),
            ["Graph", "Graph::Graph", "Graph::at", "Graph::from", "Graph::len", "Graph::nodes",
             "Mode", "Mode::fast", "Mode::slow", "Options", "Options::a_ns", "Options::b_ns",
             "Options::label", "Options::log", "Options::mode", "Options::serial", "compat::Graph",
             "compat::Size", "compat::count"])

    def test_functions_have_types_parameters_and_qualifiers(self):
        made = self.one("Graph::from")
        self.assertEqual((made.type, made.is_static, made.has_body), ("Result<Graph>", True, False))
        self.assertEqual(made.parameters,
                         ["const std::vector<std::pair<int, Mode>>& list", "Mode mode"])
        self.assertEqual(made.defaults, ["", " = {}"])
        self.assertEqual(TEXT[made.begin:made.end].split()[0], "static")
        self.assertTrue(TEXT[made.begin:made.end].endswith("= {});"))
        self.assertEqual(self.one("Graph::nodes").qualifiers, "&&")
        length = self.one("Graph::len")
        self.assertEqual((length.qualifiers, length.has_body), ("const noexcept", True))
        self.assertTrue(TEXT[length.begin:length.end].endswith("noexcept {"))
        at = self.one("Graph::at")
        self.assertEqual((at.type, at.is_template), ("T*", True))
        self.assertEqual(self.one("compat::count").type, "std::uint64_t")

    def test_constructors_have_no_type(self):
        _, second = self.found["Graph::Graph"]
        self.assertEqual(second.type, "")
        self.assertEqual(second.parameters, ["Device device", "int n"])
        self.assertEqual(second.initializers, "device_(std::move(device)), n_(n)")

    def test_fields_have_types_and_values(self):
        self.assertEqual(self.one("Options::serial").value, "= false")
        self.assertEqual(self.one("Options::b_ns").value, "{1}")
        self.assertEqual(self.one("Options::b_ns").type, "std::uint64_t")
        self.assertEqual(self.one("Options::a_ns").begin, self.one("Options::b_ns").begin)


if __name__ == "__main__":
    unittest.main()
