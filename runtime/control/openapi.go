package control

import (
	"net/http"
	"strings"
)

func (s *server) openapi(w http.ResponseWriter, _ *http.Request, _ Scope) error {
	answer(w, http.StatusOK, s.description)
	return nil
}

type object = map[string]any

// describe makes the OpenAPI description from the table of routes, so that it cannot say anything else.
func describe(table []route) object {
	paths := object{}
	for _, rt := range table {
		pattern := strings.ReplaceAll(rt.pattern, "{path...}", "{path}")
		item, _ := paths[pattern].(object)
		if item == nil {
			item = object{}
			paths[pattern] = item
		}
		item[strings.ToLower(rt.method)] = describeRoute(rt)
	}
	return object{
		"openapi": "3.1.0",
		"info":    object{"title": "Coppice", "version": "1", "description": "The control API of a Coppice daemon, on its Unix socket."},
		"paths":   paths,
		"components": object{"schemas": object{"Error": object{
			"type": "object", "required": []string{"error", "code"},
			"properties": object{"error": object{"type": "string"}, "code": object{"type": "string"}},
		}}},
	}
}

func describeRoute(rt route) object {
	op := object{"summary": rt.summary, "responses": object{
		"200": object{"description": "done"},
		"default": object{"description": "an error", "content": object{"application/json": object{
			"schema": object{"$ref": "#/components/schemas/Error"}}}},
	}}
	var params []object
	if strings.Contains(rt.pattern, "{path...}") {
		params = append(params, object{"name": "path", "in": "path", "required": true, "schema": object{"type": "string"},
			"description": "a path, or a unique tail of one"})
	}
	for _, p := range rt.query {
		params = append(params, object{"name": p.name, "in": "query", "schema": object{"type": "string"}, "description": p.about})
	}
	if params != nil {
		op["parameters"] = params
	}
	if rt.method == "POST" {
		text := object{"type": "string"}
		op["requestBody"] = object{"required": true, "content": object{"application/json": object{"schema": object{
			"type": "object", "properties": object{"path": text, "paths": object{"type": "array", "items": text},
				"timeout": text, "wait": object{"type": "boolean"}, "reason": text}}}}}
	}
	return op
}
