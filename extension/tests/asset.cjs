// What a style sheet or a picture is to a test.
module.exports = '<svg></svg>';
